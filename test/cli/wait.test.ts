/** `tenure wait`: waits for others, takes nothing. */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { serving } from '../server/serving.ts'
import { workshop } from './tenure-process.ts'

describe('tenure wait', () => {
  it('returns at once where nobody holds the resource, also without a store', async () => {
    const shop = workshop()
    expect(await shop.hosted(['wait', 'work:W-1'])).toMatchObject({
      code: 0,
      stdout: 'work:W-1 is free\n',
    })
    const nowhere = `sqlite:${shop.directory}/none.db`
    expect(await shop.hosted(['wait', 'work:W-1', '--store', nowhere])).toMatchObject({ code: 0 })
    expect(await shop.json(['ls'])).toMatchObject({ leases: [] })
  })

  it('returns when the holder releases, and has taken nothing', async () => {
    const shop = workshop()
    await shop.json(['acquire', './a.ts', '--holder', 'ada', '--ttl', '1h'])
    const waiting = shop.start(['wait', './a.ts', '--holder', 'bob', '--json'])
    await shop.json(['release', './a.ts', '--holder', 'ada'])
    const { code, stdout } = await waiting.ended
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      resource: `file:${shop.directory}/a.ts`,
      free: true,
    })
    expect(await shop.json(['ls'])).toMatchObject({ leases: [] })
    const history = await shop.json<{ readonly event: { readonly type: string } }[]>(['history'])
    expect(history.map(({ event }) => event.type)).toEqual(['lease.issued', 'lease.released'])
  })

  it('returns when the lease runs out, although nobody does anything', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:W-1', '--holder', 'ada', '--ttl', '300ms'])
    expect(await shop.hosted(['wait', 'work:W-1', '--holder', 'bob'])).toMatchObject({ code: 0 })
  })

  it('waits for all that is below a directory', async () => {
    const shop = workshop()
    await shop.json(['acquire', './src/a.ts', '--holder', 'ada', '--ttl', '1h'])
    const { code, stderr } = await shop.hosted([
      'wait',
      './src/',
      '--timeout',
      '50ms',
      '--holder',
      'bob',
    ])
    expect(code).toBe(11)
    expect(stderr).toMatch(/src did not become free within \d+ ms: "ada" is in the way/)
  })

  it('does not wait for what the holder that asks has itself', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:W-1', '--holder', 'ada', '--ttl', '1h'])
    expect(await shop.hosted(['wait', 'work:W-1', '--holder', 'ada'])).toMatchObject({ code: 0 })
  })

  it('ends with the signal that interrupts it', async () => {
    const shop = workshop()
    await shop.json(['acquire', 'work:W-1', '--holder', 'ada', '--ttl', '1h'])
    const waiting = shop.start(['wait', 'work:W-1', '--holder', 'bob'])
    if (waiting.process.stderr === null) throw new Error('it has no stderr')
    await once(waiting.process.stderr, 'data')
    waiting.process.kill('SIGTERM')
    const { code, stderr } = await waiting.ended
    expect(code).toBe(143)
    expect(stderr).toBe('waiting for work:W-1, which ada holds\n')
  })

  it('hears of a release between its look and the moment when it follows the events', async () => {
    const shop = workshop()
    const server = await serving()
    const held = { resource: 'work:W-1', holder: 'ada', ttlMs: 3_600_000 }
    const { body } = await server.ask<{ lease: { id: string } }>('POST /v1/leases', { body: held })
    let look = (): void => undefined
    const looked = new Promise<void>((resolve) => (look = resolve))
    const url = await heldBack(server.url, '/v1/events', looked)
    const waiting = shop.start(['wait', 'work:W-1', '--store', url, '--holder', 'bob'])
    if (waiting.process.stderr === null) throw new Error('it has no stderr')
    await once(waiting.process.stderr, 'data')
    await server.ask(`POST /v1/leases/${body.lease.id}/release`, { body: { holder: 'ada' } })
    look()
    expect(await waiting.ended).toMatchObject({ code: 0, stdout: 'work:W-1 is free\n' })
  })
})

/** Passes requests on to a server; those for one path only when `until` has come. */
async function heldBack(target: string, path: string, until: Promise<void>): Promise<string> {
  const proxy = http.createServer((request, response) => {
    const { method, headers, url = '' } = request
    const passOn = (): void => {
      const passed = http.request(`${target}${url}`, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers)
        answer.pipe(response)
      })
      request.pipe(passed)
      response.once('close', () => passed.destroy())
    }
    if (url.startsWith(path)) void until.then(passOn)
    else passOn()
  })
  onTestFinished(() => void proxy.close())
  await new Promise<void>((resolve) => void proxy.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}
