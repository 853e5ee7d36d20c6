/** `tenure wait`: waits for others, takes nothing. */
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'
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
})
