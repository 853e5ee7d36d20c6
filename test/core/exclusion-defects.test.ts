/**
 * Ways in which others let two holders in at once, or locked everybody out. Each has a test by its name.
 */
import { describe, expect, it } from 'vitest'
import { isHeld, type Entry } from '../../src/core/lease.ts'
import { acquire, claim, id, release, renew, TTL_MS, WAITING, WINDOW_MS } from './builders.ts'
import { TinyRealm } from './tiny-realm.ts'

const ada = acquire({ leaseId: id(1), holder: 'ada' })
const bob = acquire({ leaseId: id(2), holder: 'bob' })

function heldBy(realm: TinyRealm): readonly string[] {
  const now = realm.now()
  const held = [...realm.entries.values()].filter((entry: Entry) => isHeld(entry, now))
  return held.map((entry) => entry.holder)
}

describe('a check-then-insert race gives two holders', () => {
  it('no: of two that saw it free, the second decides again on what the first committed', () => {
    const realm = new TinyRealm()
    expect(realm.run(ada).kind).toBe('granted')
    const { decision } = realm.step(bob)
    expect(decision.outcome).toMatchObject({ kind: 'held', blockers: [{ holder: 'ada' }] })
    expect(heldBy(realm)).toEqual(['ada'])
  })

  it('no: a decision says until when it is worth committing', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    const { decision, now } = realm.step(bob)
    expect(decision.validUntilUs).toBe(now.tick.us - 1 + TTL_MS * 1000)
  })
})

describe('renewing after takeover or release resurrects a lease', () => {
  it('no: not after a takeover', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.pass(TTL_MS)
    expect(realm.run(bob).kind).toBe('granted')
    expect(realm.run(renew()).kind).toBe('expired')
    expect(heldBy(realm)).toEqual(['bob'])
  })

  it('no: not after a release', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.run(release())
    expect(realm.run(renew())).toEqual({ kind: 'terminal', leaseId: id(1), state: 'released' })
    expect(heldBy(realm)).toEqual([])
  })

  it('no: not by acquiring again under the old id', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.run(release())
    expect(realm.run(ada).kind).toBe('terminal')
    expect(heldBy(realm)).toEqual([])
  })
})

describe('a lease that is known by the name of its holder ends with an earlier one', () => {
  it('no: the release of a lease that is gone is not the release of what its holder has now', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    const gone = id(9)
    expect(realm.run(release({ leaseId: gone }))).toEqual({ kind: 'not_found', leaseId: gone })
    expect(heldBy(realm)).toEqual(['ada'])
  })
})

describe('an expired, unswept lease still blocks', () => {
  it('no: expired means free at the moment of the check, with no sweeper', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.pass(TTL_MS)
    expect([...realm.entries.values()]).toMatchObject([{ state: 'active' }])
    expect(realm.run(bob).kind).toBe('granted')
  })
})

describe('a crash between "pending" and "active" locks for ever', () => {
  it('no: an offer whose waiter died costs one claim window', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.run({ ...bob, ...WAITING })
    realm.run(release())
    expect(realm.run(acquire()).kind).toBe('held')
    realm.pass(WINDOW_MS)
    expect(realm.run(acquire({ leaseId: id(4) })).kind).toBe('granted')
  })

  it('no: a ticket whose waiter died before its turn costs nothing', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.run({ ...bob, ...WAITING })
    realm.pass(WINDOW_MS)
    realm.run(release())
    expect(realm.run(acquire()).kind).toBe('granted')
  })
})

describe("releasing an expired lease frees the next holder's lock", () => {
  it('no: the late release ends nothing', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.pass(TTL_MS)
    realm.run(bob)
    expect(realm.run(release()).kind).toBe('expired')
    expect(heldBy(realm)).toEqual(['bob'])
    expect(realm.run(acquire()).kind).toBe('held')
  })

  it('no: not even when the same holder has won it again', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.pass(TTL_MS)
    realm.run({ ...ada, leaseId: id(5) })
    expect(realm.run(release()).kind).toBe('expired')
    expect(heldBy(realm)).toEqual(['ada'])
  })
})

describe('the same agent gets two rows for one file', () => {
  it('no: asking again is refused and names its own lease', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    expect(realm.run({ ...ada, leaseId: id(5), sequential: true, ...WAITING })).toMatchObject({
      ...{ kind: 'held', notWaiting: 'own', blockers: [{ leaseId: id(1) }] },
    })
    expect(heldBy(realm)).toEqual(['ada'])
  })

  it('no: the same request twice has one lease', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    expect(realm.run(ada)).toMatchObject({ kind: 'granted', repeated: true })
    expect(realm.ledger.map((event) => event.type)).toEqual(['lease.issued'])
  })
})

describe('stale takeover by delete-then-create races', () => {
  it('no: the expiry of one and the grant of the next are one commit', () => {
    const realm = new TinyRealm()
    realm.run(ada)
    realm.pass(TTL_MS)
    const { commit } = realm.step(bob)
    expect(commit.events.map((event) => event.type)).toEqual(['lease.expired', 'lease.issued'])
    expect(realm.run(acquire()).kind).toBe('held')
    expect(heldBy(realm)).toEqual(['bob'])
  })
})

describe('two processes sharing one configured identity', () => {
  const first = { ...ada, session: 'process-1' }
  const second = { ...ada, leaseId: id(2), session: 'process-2' }

  it('do not share a lease: they exclude each other like strangers', () => {
    const realm = new TinyRealm()
    realm.run(first)
    expect(realm.run(second)).toMatchObject({ kind: 'held', notWaiting: 'not_asked' })
  })

  it('wait for each other like strangers', () => {
    const realm = new TinyRealm()
    realm.run(first)
    expect(realm.run({ ...second, ...WAITING }).kind).toBe('queued')
    realm.run(release())
    const stolen = claim({ holder: 'ada', session: 'process-1' })
    expect(realm.run(stolen).kind).toBe('not_holder')
    const named = claim({ holder: 'eve', session: 'process-2' })
    expect(realm.run(named).kind).toBe('not_holder')
    expect(realm.run(claim({ holder: 'ada', session: 'process-2' })).kind).toBe('granted')
  })

  it('cannot end or renew each other by the name alone: a lease is named by its id', () => {
    const realm = new TinyRealm()
    realm.run(first)
    realm.pass(TTL_MS)
    realm.run(second)
    expect(realm.run(renew()).kind).toBe('expired')
    expect(realm.run(release()).kind).toBe('expired')
    expect(heldBy(realm)).toEqual(['ada'])
  })
})
