/** Namespaces of the version before, which kept ended leases beside live ones, are converted when they are opened. */
import { describe, expect, it } from 'vitest'
import { parseResource } from '../../src/core/resource.ts'
import { systemRuntime } from '../../src/runtime/system-runtime.ts'
import type { RedisStoreOptions } from '../../src/store/redis/redis-store.ts'
import { writeLayout4, type OldNamespace } from '../fixtures/redis-layout-4.ts'
import { INCARNATION, writeLayout5 } from '../fixtures/redis-layout-5.ts'
import { direct, server, ShiftedClock, Subject, until } from './redis-subject.ts'

const ENDED_STATES = ['released', 'expired', 'revoked', 'failed'] as const
const LOCK = 'tenure:{default}:converting'

function facts(change: Partial<OldNamespace> = {}): OldNamespace {
  const atMs = Math.floor(new ShiftedClock().nowUs() / 1_000)
  return { namespace: 'default', live: 3, ended: 4, atMs, ttlMs: 600_000, ...change }
}

/** All that can be asked for, but for the time. */
async function everything({ store }: Subject) {
  const { entries: live } = await store.find({ limit: 10_000 })
  const { entries: ended } = await store.find({ states: ENDED_STATES, limit: 10_000 })
  const history = await store.history({ limit: 10_000 })
  return { live, ended, history, end: await store.end(), settings: await store.settings() }
}

/** A client that does something else first when it has sent so many commands. */
async function interrupted(url: string, after: number, interrupt: (sent: number) => unknown) {
  const client = direct(url)
  await until(async () => client.status === 'ready')
  const call = client.call.bind(client) as (...args: string[]) => Promise<unknown>
  let sent = 0
  Object.assign(client, {
    call: async (...args: string[]) => {
      sent += 1
      if (sent > after) await interrupt(sent)
      return call(...args)
    },
  })
  return client
}

/** A client that is as good as killed when it has sent so many commands. */
function dyingAfter(url: string, commands: number) {
  return interrupted(url, commands, () => {
    throw new Error('Connection is closed.')
  })
}

describe('a namespace of layout 4', () => {
  it('is converted with all that it kept', async () => {
    const { url } = await server()
    const ids = await writeLayout4(direct(url), facts())
    const subject = await Subject.open({ url, convert: 'force' })
    const { live, ended, history, settings } = await everything(subject)
    expect(live.map(({ id }) => id)).toEqual([...ids.live, ids.ticket, ids.subtree])
    expect(ended.map(({ id }) => id)).toEqual(ids.ended)
    expect(ended[0]).toMatchObject({
      state: 'released',
      releaseReason: 'completed',
      ttlMs: 600_000,
    })
    expect(history.map(({ event }) => event.type.slice(6)).join(' ')).toBe(
      `${'issued '.repeat(3)}${'issued released '.repeat(4)}queued issued`,
    )
    const positions = history.map(({ position }) => Number(position))
    expect(positions).toEqual(positions.toSorted((a, b) => a - b))
    expect(settings).toMatchObject([{ key: 'default_ttl_seconds', value: '7' }])
    const left = await direct(url).keys('*')
    expect(left.filter((key) => /:(old|y):|:[jkcutodilgp]$/.test(key))).toEqual([])
  })

  it('goes on as what it was: exclusion, the queue, repeats, epochs and ids that were used', async () => {
    const { url } = await server()
    const ids = await writeLayout4(direct(url), facts())
    const subject = await Subject.open({ url, convert: 'force' })
    expect((await subject.acquire({}, 'live-2')).kind).toBe('held')
    expect((await subject.acquire({}, 'live-1')).kind).toBe('held')
    const below = { id: systemRuntime.uuid(), resource: parseResource('file:/a/b') }
    const wish = { holder: 'bob', session: 'bob', ttlMs: 1_000, waitMs: 0 }
    expect((await subject.api.acquire({ ...below, ...wish })).kind).toBe('held')
    const [ended = ''] = ids.ended
    expect((await subject.acquire({ leaseId: ended }, 'ended')).kind).toBe('terminal')
    expect((await subject.acquire({ leaseId: ids.marked }, 'marked')).kind).toBe('terminal')
    const workflow = { id: systemRuntime.uuid(), resource: parseResource('workflow:w') }
    expect(await subject.api.acquire({ ...workflow, ...wish })).toMatchObject({
      lease: { epoch: 3 },
    })
    expect((await subject.api.get({ id: ids.live[1] ?? '' }))?.state).toBe('active')
  })

  it('is refused while leases are live there, and left as it is', async () => {
    const { url } = await server()
    const admin = direct(url)
    await writeLayout4(admin, facts())
    const before = await admin.keys('*')
    await expect(Subject.open({ url })).rejects.toMatchObject({
      code: 'STORE_SCHEMA',
      message: expect.stringMatching(/5 live leases and tickets in layout 4.*--convert/) as string,
    })
    expect((await admin.keys('*')).toSorted()).toEqual(before.toSorted())
    expect(await admin.hget('tenure:{default}:meta', 'version')).toBe('4')
  })

  it('whose leases are all over is converted without being asked', async () => {
    const { url } = await server()
    const atMs = facts().atMs - 10_000_000
    const ids = await writeLayout4(direct(url), facts({ atMs }))
    const subject = await Subject.open({ url })
    expect((await everything(subject)).ended.map(({ id }) => id)).toEqual(ids.ended)
  })

  it('is used by no process of the old version any more: its script fails at its first command', async () => {
    const { url } = await server()
    const admin = direct(url)
    await writeLayout4(admin, facts())
    await Subject.open({ url, convert: 'force' })
    await expect(admin.hmget('tenure:{default}:e', 'state')).rejects.toThrow(/WRONGTYPE/)
    await direct(url).flushall()
    await Subject.open({ url })
    await expect(admin.hmget('tenure:{default}:e', 'state')).rejects.toThrow(/WRONGTYPE/)
  })

  it('is converted to the end by the next process when one was killed, wherever that was', async () => {
    const { url } = await server()
    const admin = direct(url)
    const past = facts()
    const open = (more: RedisStoreOptions): Promise<Subject> => {
      return Subject.open({ convert: 'force', ...more })
    }
    await writeLayout4(admin, past)
    const whole = await everything(await open({ url }))
    let isWhole = false
    for (let commands = 2; !isWhole; commands += 5) {
      await admin.flushall()
      await writeLayout4(admin, past)
      const client = await dyingAfter(url, commands)
      isWhole = await open({ client }).then(
        () => true,
        () => false,
      )
      // As if its time had passed.
      await admin.del(LOCK)
      expect(await everything(await open({ url }))).toEqual(whole)
      expect(await admin.keys('*:old:*')).toEqual([])
    }
  })

  it('gets nothing back from a process that was stopped until another had converted it, wherever that was', async () => {
    const { url } = await server()
    const admin = direct(url)
    const past = facts()
    let isWhole = false
    for (let commands = 2; !isWhole; commands += 4) {
      await admin.flushall()
      const [first = ''] = (await writeLayout4(admin, past)).live
      let before: unknown = null
      const other = async (): Promise<void> => {
        await admin.del(LOCK)
        const subject = await Subject.open({ url, convert: 'force' })
        await subject.api.revoke({ id: first, by: 'operator' })
        before = await everything(subject)
      }
      const client = await interrupted(url, commands, (sent) => {
        return sent === commands + 1 ? other() : null
      })
      // What the other does counts as the time of one of its calls.
      const late = await Subject.open({ client, convert: 'force', callMs: 60_000 })
      isWhole = before === null
      if (!isWhole) expect(await everything(late)).toEqual(before)
    }
  })

  it('is not converted by two at once', async () => {
    const { url } = await server()
    const admin = direct(url)
    await writeLayout4(admin, facts())
    await admin.set(LOCK, 'another')
    await expect(Subject.open({ url, convert: 'force' })).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      message: expect.stringContaining('is being converted by another process') as string,
    })
  })

  it('of many leases and events is converted page by page', async () => {
    const { url } = await server()
    const ids = await writeLayout4(direct(url), facts({ live: 1_200, ended: 3_000 }))
    const subject = await Subject.open({ url, convert: 'force' })
    const { live, ended, history } = await everything(subject)
    expect(live.map(({ id }) => id)).toEqual([...ids.live, ids.ticket, ids.subtree])
    expect(ended.map(({ id }) => id)).toEqual(ids.ended)
    expect(history).toHaveLength(1_200 + 2 * 3_000 + 2)
  })
})

describe('a namespace of layout 5', () => {
  it('goes on with all that it kept, and with events of either layout', async () => {
    const { url } = await server()
    const past = facts()
    const { live, ended, requests } = await writeLayout5(direct(url), past)
    const subject = await Subject.open({ url, convert: 'force' })
    const before = await everything(subject)
    expect(before.live.map(({ id }) => id)).toEqual(live)
    expect(before.ended).toMatchObject(
      ended.map((id, n) => ({
        ...{ id, state: 'released', renewals: 1, createdAtMs: past.atMs, fence: past.atMs * 1_000 },
        ...{ expiresAtMs: past.atMs + 600_007, terminatedAtMs: past.atMs },
        releaseReason: n % 2 === 0 ? 'voluntary' : 'completed',
      })),
    )
    expect(before.history.map(({ event }) => event.type.slice(6)).join(' ')).toBe(
      `${'issued '.repeat(3)}${'issued renewed released '.repeat(4)}`.trim(),
    )
    expect((await subject.acquire({}, 'live-2')).kind).toBe('held')
    const [id = ''] = ended
    expect((await subject.acquire({ leaseId: id }, 'ended')).kind).toBe('terminal')
    const again = { id, resource: parseResource('work:ended'), holder: 'ada' }
    const requestId = requests[0] ?? ''
    expect((await subject.api.release({ ...again, requestId })).kind).toBe('released')
    await subject.grant('ended')
    const after = await everything(subject)
    expect(after.history.slice(0, -1)).toEqual(before.history)
    expect(after.history.at(-1)?.event.type).toBe('lease.issued')
  })

  it('is refused while leases are live there, and left as it is', async () => {
    const { url } = await server()
    const admin = direct(url)
    await writeLayout5(admin, facts())
    await expect(Subject.open({ url })).rejects.toMatchObject({
      code: 'STORE_SCHEMA',
      message: expect.stringMatching(/3 live leases and tickets in layout 5.*--convert/) as string,
    })
    expect(await admin.hget('tenure:{default}:meta', 'version')).toBe('5')
    expect(await admin.hget('tenure:{default}:live', 'state')).toMatch(/^5\//)
  })

  it('whose leases are all over is converted without being asked, and no process of before uses it', async () => {
    const { url } = await server()
    const admin = direct(url)
    await writeLayout5(admin, facts({ atMs: facts().atMs - 10_000_000 }))
    await Subject.open({ url })
    expect(await admin.hget('tenure:{default}:meta', 'version')).toBe('6')
    // Its scripts compare the identity that they mean before they do anything.
    expect(await admin.hget('tenure:{default}:live', 'state')).toMatch(`6/1/${INCARNATION} `)
  })

  it('is taken over where a process was killed that had only raised its number', async () => {
    const { url } = await server()
    const admin = direct(url)
    const { live } = await writeLayout5(admin, facts())
    await admin.hset('tenure:{default}:meta', 'version', '6')
    const { store } = await Subject.open({ url })
    expect((await store.find({ limit: 9 })).entries.map(({ id }) => id)).toEqual(live)
    expect(await admin.hget('tenure:{default}:live', 'state')).toMatch(`6/1/${INCARNATION} `)
  })
})

describe('a conversion that a process of layout 5 has left behind', () => {
  it('is ended, and what it had converted stays', async () => {
    const { url } = await server()
    const admin = direct(url)
    const { live } = await writeLayout5(admin, facts())
    await admin.hset('tenure:{default}:meta', 'converting', 'of one that was killed')
    const { store } = await Subject.open({ url })
    expect((await store.find({ limit: 9 })).entries.map(({ id }) => id)).toEqual(live)
    expect(await admin.hgetall('tenure:{default}:meta')).toEqual({
      ...{ version: '6', buckets: '1', incarnation: INCARNATION },
    })
  })
})
