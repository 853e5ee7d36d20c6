/** Data on the server that Tenure did not write, or that were damaged. */
import { describe, expect, it } from 'vitest'
import { groupReplyOf } from '../../src/store/redis/redis-records.ts'
import { parseResource } from '../../src/core/resource.ts'
import { direct, server, Subject } from './redis-subject.ts'

/** Leaves the numbers that the script reads, and cuts the record short. */
async function damage(url: string, leaseId: string): Promise<void> {
  const admin = direct(url)
  const key = 'tenure:{default}:live'
  const body = await admin.hget(key, leaseId)
  if (body === null) throw new Error(`there is no ${leaseId} in ${key}`)
  await admin.hset(key, leaseId, body.slice(0, body.indexOf('[') + 5))
}

describe('a record that cannot be understood', () => {
  it('leaves only those in doubt who are told of it', async () => {
    const { url } = await server()
    const before = await Subject.open({ url })
    await damage(url, (await before.grant('damaged')).id)
    const subject = await Subject.open({ url })
    const [damaged, ...others] = await Promise.allSettled(
      ['damaged', 'a', 'b'].map((name) => subject.acquire({}, name)),
    )
    expect(damaged).toMatchObject({
      status: 'rejected',
      reason: { code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' },
    })
    for (const other of others) expect(other).toMatchObject({ value: { kind: 'granted' } })
    for (const name of ['a', 'b']) {
      const resource = parseResource(`work:${name}`)
      const { entries } = await before.store.find({ resource, states: ['active'], limit: 2 })
      expect(entries).toHaveLength(1)
    }
  })
})

describe('an answer that cannot be understood', () => {
  const attempt = {
    ...{ places: [], fromUs: 0, beforeUs: 0, wallMs: 0, fences: null },
    ...{ writes: [], events: [], requests: [], epochs: [], wakes: [] },
  }
  const unknown = { code: 'STORE_OUTCOME_UNKNOWN', effect: 'unknown' }

  it.each([
    ['nothing', null],
    ['a text', 'OK'],
    ['no clock', ['soon', 1, null, 0, 1]],
    ['settings that are none', [1, 1, ['{', '5'], 0, 1]],
    ['fewer attempts than were sent', [1, 1, null, 0, 0]],
    ['no count of attempts', [1, 1, null, 0]],
    ['an attempt that was not sent', [1, 1, null, 0, 1, 2, 7]],
  ])('as a whole (%s) leaves all in doubt', (_what, answer) => {
    expect(() => groupReplyOf(answer, [attempt], 'redis:')).toThrow(
      expect.objectContaining(unknown),
    )
  })

  it.each([
    ['missing', undefined],
    ['a text', 'OK'],
    ['views of places that nobody asked for', [['0', '0', '0', '0']]],
  ])('to one attempt (%s) leaves that one in doubt', (_what, reply) => {
    const answer = [1, 1, null, 0, 3, 1, 7, 3, ...(reply === undefined ? [] : [reply])]
    const { replies } = groupReplyOf(answer, [attempt, attempt, attempt], 'redis:')
    expect(replies).toMatchObject([
      { kind: 'committed', fencesMovedBy: 7 },
      { kind: 'committed', fencesMovedBy: 0 },
      { kind: 'failed', error: unknown },
    ])
  })
})
