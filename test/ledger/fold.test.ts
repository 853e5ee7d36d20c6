import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../src/core/canonical-json.ts'
import { differences, foldLedger } from '../../src/ledger/fold.ts'
import type { Lease } from '../../src/core/lease.ts'
import {
  acquire,
  claim,
  id,
  lease,
  release,
  renew,
  revoke,
  tickAt,
  ticket,
  TTL_MS,
  WAITING,
  WORK,
} from '../core/builders.ts'
import { TinyRealm } from '../core/tiny-realm.ts'

/** A handover, a refusal, a renewal, an expiry and a waiter that is heard of. */
function lived(): TinyRealm {
  const realm = new TinyRealm()
  realm.run(acquire({ leaseId: id(1), holder: 'ada' }))
  realm.run(acquire({ leaseId: id(2), holder: 'bob', ...WAITING }))
  realm.run(acquire({ leaseId: id(3) }))
  realm.pass(4_000)
  realm.run(claim())
  realm.run(renew())
  realm.run(release())
  realm.run(claim())
  realm.run(acquire({ leaseId: id(4), holder: 'eve', ...WAITING }))
  realm.pass(4_000)
  realm.run(claim({ leaseId: id(4), session: 'session-of-eve' }))
  realm.pass(TTL_MS)
  realm.run(acquire({ leaseId: id(5), holder: 'fay' }))
  realm.run(revoke({ leaseId: id(5) }))
  return realm
}

function without(realm: TinyRealm, index: number) {
  return realm.ledger.filter((_, at) => at !== index)
}

describe('a folded ledger', () => {
  it('is the state, byte for byte', () => {
    const realm = lived()
    const folded = foldLedger(realm.ledger)
    expect(differences(folded, realm.entries)).toEqual([])
    for (const [leaseId, entry] of realm.entries) {
      if (entry.kind !== 'lease') continue
      expect(canonicalJson(folded.get(leaseId))).toBe(canonicalJson(entry))
    }
  })

  it('of an empty ledger is empty', () => {
    expect(foldLedger([])).toEqual(new Map())
    expect(differences(new Map(), new Map())).toEqual([])
  })

  it('shows every single event that is missing', () => {
    const realm = lived()
    const unnoticed = realm.ledger.filter((_, index) => {
      try {
        return differences(foldLedger(without(realm, index)), realm.entries).length === 0
      } catch (error) {
        expect(error).toMatchObject({ message: expect.stringContaining('does not follow') })
        return false
      }
    })
    // An offer leaves nothing behind once the lease is issued, which carries its fence.
    expect(unnoticed).toMatchObject([{ type: 'lease.offered', leaseId: id(2) }])
  })

  it('refuses an event that does not follow from the ones before it', () => {
    const { ledger } = lived()
    expect(() => foldLedger(ledger.toReversed())).toThrow(/does not follow from/)
  })
})

describe('a difference', () => {
  it('names the lease and both sides', () => {
    const kept = new Map([[id(1), lease({ holder: 'eve', session: 's' })]])
    const folded = new Map([[id(1), lease({ session: 's' })]])
    expect(differences(folded, kept)).toEqual([
      {
        leaseId: id(1),
        folded: expect.stringContaining('"holder":"ada"'),
        kept: expect.stringContaining('"holder":"eve"'),
      },
    ])
  })

  it('is a lease that only one side knows, in order of id', () => {
    const one = new Map([[id(2), lease({ id: id(2) })]])
    const other = new Map([[id(1), lease()]])
    expect(differences(one, other)).toMatchObject([
      { leaseId: id(1), folded: null },
      { leaseId: id(2), kept: null },
    ])
  })

  it('is not when a waiter was last heard of', () => {
    const heard = new Map([[id(2), ticket({ deadline: tickAt(9_000) })]])
    expect(differences(new Map([[id(2), ticket()]]), heard)).toEqual([])
    const moved = new Map([[id(2), ticket({ orderUs: 7 })]])
    expect(differences(new Map([[id(2), ticket()]]), moved)).toHaveLength(1)
  })

  it('is not the order in which the fields were written', () => {
    const entry = lease({ metadata: { a: 1, b: 2 } })
    const fields = Object.entries({ ...entry, metadata: { b: 2, a: 1 } }).toReversed()
    const reversed = Object.fromEntries(fields) as unknown as Lease
    expect(JSON.stringify(reversed)).not.toBe(JSON.stringify(entry))
    expect(differences(new Map([[id(1), entry]]), new Map([[id(1), reversed]]))).toEqual([])
  })
})

describe('where renewals are not recorded', () => {
  const renewed = lease({
    ...{ renewals: 3, renewedAtMs: 5, expiresAtMs: 6, ttlMs: 7, deadline: tickAt(8) },
  })
  const folded = new Map([[id(1), lease()]])

  it('what a renewal changes is no difference', () => {
    const kept = new Map([[id(1), renewed]])
    expect(differences(folded, kept, { recordsRenewals: () => false })).toEqual([])
    expect(differences(folded, kept)).toHaveLength(1)
  })

  it('ownership still is', () => {
    const kept = new Map([[id(1), { ...renewed, fence: 1 }]])
    expect(differences(folded, kept, { recordsRenewals: () => false })).toHaveLength(1)
  })

  it('other kinds are compared whole', () => {
    const kept = new Map([[id(1), renewed]])
    const recordsRenewals = (resource: string): boolean => resource === WORK
    expect(differences(folded, kept, { recordsRenewals })).toHaveLength(1)
  })

  it('the fold gives ownership although deadlines have moved', () => {
    const realm = new TinyRealm()
    const off = { key: 'record_renewals', value: 'false', scope: 'global' } as const
    realm.settings.push({ ...off, resourceId: null })
    realm.run(acquire({ leaseId: id(1), holder: 'ada' }))
    realm.pass(5_000)
    realm.run(renew())
    realm.pass(8_000)
    realm.run(release())
    expect(realm.ledger.map((event) => event.type)).toEqual(['lease.issued', 'lease.released'])
    const found = differences(foldLedger(realm.ledger), realm.entries, {
      recordsRenewals: () => false,
    })
    expect(found).toEqual([])
  })
})
