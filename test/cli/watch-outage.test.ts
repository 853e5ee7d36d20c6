import { once } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import type { LedgerEntry } from '../../src/service/lease-api.ts'
import { Proxy } from '../servers/proxy.ts'
import { startRedis } from '../servers/redis-server.ts'
import { start, tenure, type Running } from './tenure-process.ts'

/** Resolves once stderr holds the text. */
async function remarks({ process: { stderr } }: Running, text: string): Promise<void> {
  let heard = ''
  while (!heard.includes(text)) {
    if (stderr === null) throw new Error('the process has no stderr')
    const [chunk] = (await once(stderr, 'data')) as [Buffer]
    heard += chunk.toString()
  }
}

it('a watch says once that the store is away, once that it is back, and misses nothing', async () => {
  const server = await startRedis()
  onTestFinished(() => server.close())
  const proxy = await Proxy.start(server.url)
  onTestFinished(() => proxy.close())
  const issue = async (resource: string): Promise<void> => {
    const { code, stderr } = await tenure(['acquire', resource, '--store', server.url])
    if (code !== 0) throw new Error(stderr)
  }
  await issue('work:first')
  const history = await tenure(['history', '--json', '--store', server.url])
  const [before] = JSON.parse(history.stdout) as readonly LedgerEntry[]
  const after = before?.position ?? ''
  await issue('work:second')
  const watching = start(['watch', '--store', proxy.through(server.url), '--after', after])
  await watching.says('work:second')
  const away = remarks(watching, 'the store is away')
  proxy.refuse()
  await away
  await issue('work:third')
  const back = remarks(watching, 'the store is back')
  proxy.clear()
  await back
  await watching.says('work:third')
  watching.process.kill('SIGTERM')
  const { code, stdout, stderr } = await watching.ended
  expect(code).toBe(143)
  expect(stdout.split('\n').filter((line) => line.includes('work:'))).toHaveLength(2)
  const said = stderr.trim().split('\n')
  expect(said).toHaveLength(3)
  expect(said[1]).toBe('tenure: the store is back')
  expect(said[2]).toMatch(/^resume with --after \S+$/)
})
