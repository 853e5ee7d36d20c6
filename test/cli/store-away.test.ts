import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { start, tenure } from './tenure-process.ts'

async function serverThatIsAway(): Promise<Proxy & { readonly url: string }> {
  const server = await startRedis()
  onTestFinished(() => server.close())
  const proxy = await Proxy.start(server.url)
  onTestFinished(() => proxy.close())
  proxy.refuse()
  return Object.assign(proxy, { url: proxy.through(server.url) })
}

it('a command that waits outlasts a store that is away when it starts', async () => {
  const store = await serverThatIsAway()
  const child = ['--', process.execPath, '-e', 'console.log("it ran")']
  const running = start(['run', 'work:A', '--wait', 'forever', '--store', store.url, ...child])
  let isOver = false
  void running.ended.then(() => (isOver = true))
  // More than a single try of the driver makes: without a second one the command has ended by then.
  while (!isOver && store.connections < 12) await sleep(5)
  expect(isOver).toBe(false)
  store.clear()
  const { code, stdout } = await running.ended
  expect([code, stdout]).toEqual([0, 'it ran\n'])
})

it('one that does not wait, or not for so long, says that the store is away', async () => {
  const store = await serverThatIsAway()
  for (const wait of [[], ['--wait', '300ms']]) {
    const { code, stderr } = await tenure(['acquire', 'work:A', ...wait, '--store', store.url])
    expect(code).toBe(15)
    expect(stderr).toMatch(/cannot be reached.*STORE_UNAVAILABLE/)
  }
})
