/** Ledgers that no store has written, though their chains fit: whoever writes the hashes anew can say anything. */
import { describe, expect, it } from 'vitest'
import { isLeaseError } from '../../src/core/errors.ts'
import type { LeaseEvent } from '../../src/core/event.ts'
import { openTenure, type Tenure } from '../../src/index.ts'
import { readLedger } from '../../src/ledger/read-ledger.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import { randomFrom } from '../../src/testing/fake-runtime.ts'
import type { LedgerEntry, Store } from '../../src/store-port/store.ts'
import { Family, id } from '../delegation/family.ts'
import { EVERY_STORE, freshStoreOf } from '../servers/every-store.ts'
import { livedWorld, wholeHistory } from './ledger-world.ts'

interface Told {
  position: string
  event: { -readonly [Name in keyof LeaseEvent]: LeaseEvent[Name] } & Record<string, unknown>
}

async function exported(store: Store): Promise<Told[]> {
  return structuredClone(await wholeHistory(store)) as unknown as Told[]
}

function chained(entries: readonly Told[]): string {
  const chain = new LedgerChain()
  return entries.map((entry) => `${chain.append(entry as never)}\n`).join('')
}

/** A root of 100 tokens over a directory, a child of 10 that spends 4, and two leases of a work after each other. */
async function family(): Promise<Told[]> {
  const one = new Family()
  const root = await one.root('file:/repo', 'subtree')
  const wide = await one.derive(root, {
    resource: 'file:/repo/all',
    extent: 'subtree',
    budget: { tokens: 100 },
  })
  const child = await one.derive(wide, { resource: 'file:/repo/all/a', budget: { tokens: 10 } })
  await one.spend(child, { tokens: 4 })
  const flow = await one.root('workflow:f')
  await one.api.advance({ id: flow.id, holder: flow.holder, from: 0, count: 7 })
  await one.api.advance({ id: flow.id, holder: flow.holder, from: 7, count: 2 })
  await one.release(flow)
  await one.root('workflow:f')
  one.ticks.pass(5)
  await one.release(await one.root('work:w'))
  one.ticks.pass(5)
  await one.root('work:w')
  return exported(one.store)
}

function issuedOf(entries: readonly Told[], resource: string): Told['event'] {
  const found = entries.findLast(({ event }) => {
    return event.type === 'lease.issued' && event.resource === resource
  })
  if (found === undefined) throw new Error(`nothing was issued of ${resource}`)
  return found.event
}

type Forgery = (entries: Told[]) => void

interface Inner {
  fence: number
  grantedAtMs: number
  holder: string
  ttlMs: number
  expiresAtMs: number
  reason: string
  metadata: object
  epoch: number
  mode: string
  holdUntilUs: number | null
  renewals: number
  deadline: { us: number }
  delegation?: { line: string[]; limits: { tokens: number }; used: object; children: string[] }
}

function leaseOf(entries: readonly Told[], resource: string): Inner {
  return issuedOf(entries, resource)['lease'] as Inner
}

interface Change {
  kind: string
  childId: string
  amounts: { tokens: number }
}

function changeOf(entries: readonly Told[], kind: string): Change {
  const changes = entries.map(({ event }) => event['change'] as { kind: string } | undefined)
  return changes.findLast((change) => change?.kind === kind) as never
}

const CHILD = 'file:/repo/all/a'
const NO_LEASE = 'lease.issued has no such lease'

const FORGERIES: readonly (readonly [what: string, said: string, forge: Forgery])[] = [
  [
    'spends more than it has',
    'tokens must be at most 10, got 4000',
    (entries) => (changeOf(entries, 'spent').amounts.tokens = 4000),
  ],
  [
    'has used more than its limit from its beginning',
    'more is used than there is',
    (entries) => Object.assign(leaseOf(entries, CHILD).delegation ?? {}, { used: { tokens: 11 } }),
  ],
  [
    'was given more than its parent had',
    'tokens must be at most 100, got 101',
    (entries) =>
      Object.assign(leaseOf(entries, CHILD).delegation ?? {}, { limits: { tokens: 101 } }),
  ],
  [
    'was given something else than its parent says',
    'it gave other amounts than its child has',
    (entries) => (changeOf(entries, 'derived').amounts.tokens = 9),
  ],
  [
    'outlives its parent',
    'ttlMs must end no later than the parent',
    (entries) => (leaseOf(entries, CHILD).deadline.us += 1e12),
  ],
  [
    'is of a parent that there is not',
    'no parent tells what it gave to it',
    (entries) => {
      const { delegation } = leaseOf(entries, CHILD)
      if (delegation === undefined) throw new Error('the child was not derived')
      leaseOf(entries, 'work:w').delegation = { ...delegation, line: [id(999)] }
    },
  ],
  [
    'is of a parent that says nothing of it',
    'no parent tells what it gave to it',
    (entries) => entries.splice(at(entries, changeOf(entries, 'derived')), 1),
  ],
  [
    'holds beside a stranger in one directory',
    'file:/repo/all/a is held by another',
    (entries) => {
      delete leaseOf(entries, CHILD).delegation
      entries.splice(at(entries, changeOf(entries, 'derived')), 1)
    },
  ],
  [
    'has the fence of another',
    'fence must be more than',
    (entries) => (leaseOf(entries, 'work:w').fence = leaseOf(entries.slice(0, -1), 'work:w').fence),
  ],
  [
    'was granted before those before it',
    'atMs must be at least',
    (entries) => {
      issuedOf(entries, 'work:w').atMs = 1
      leaseOf(entries, 'work:w').grantedAtMs = 1
    },
  ],
  [
    'was granted at another time than it was issued',
    'grantedAtMs must be',
    (entries) => (leaseOf(entries, 'work:w').grantedAtMs = 1),
  ],
  [
    'comes out of nowhere',
    'before must be null, got released',
    (entries) => (issuedOf(entries, 'work:w').before = 'released'),
  ],
  [
    'leads elsewhere than it says',
    'after must be active, got failed',
    (entries) => (issuedOf(entries, 'work:w').after = 'failed'),
  ],
  [
    'is of one holder in the event and of another in the lease',
    'holder must be boss, got mallory',
    (entries) => (issuedOf(entries, 'work:w').holder = 'mallory'),
  ],
  [
    'is of one session in the event and of another in the lease',
    'got other',
    (entries) => (issuedOf(entries, 'work:w').session = 'other'),
  ],
  [
    'has children from its beginning',
    'a lease begins without children',
    (entries) => Object.assign(leaseOf(entries, CHILD).delegation ?? {}, { children: [id(999)] }),
  ],
  [
    'has an ancestor that its parent has not',
    'its child is of another ancestor chain',
    (entries) => leaseOf(entries, CHILD).delegation?.line.splice(1, 0, id(999)),
  ],
  [
    'has the fence of another root',
    'its child has another root',
    (entries) => Object.assign(leaseOf(entries, CHILD).delegation ?? {}, { rootFence: 1_000 }),
  ],
  [
    'is of a root that shares, and does not',
    'its child has another root',
    (entries) => Object.assign(leaseOf(entries, CHILD).delegation ?? {}, { rootMode: 'shared' }),
  ],
  [
    'was given something twice',
    'its child was told before',
    (entries) => repeat(entries, changeOf(entries, 'derived')),
  ],
  [
    'was given something by one that is not its parent',
    'it has no such child',
    (entries) => {
      const { change } = repeat(entries, changeOf(entries, 'derived'))
      change.childId = issuedOf(entries, 'file:/repo').leaseId
    },
  ],
  [
    'gives back what it still has',
    'its child has not ended',
    (entries) => (repeat(entries, changeOf(entries, 'derived')).change.kind = 'refunded'),
  ],
  [
    'gave to a forgotten child more than it had',
    'it gave more than it had',
    (entries) => {
      const { change } = repeat(entries, changeOf(entries, 'derived'))
      Object.assign(change, { childId: id(999), amounts: { tokens: 91 } })
    },
  ],
  [
    'gets something back from a child that it never had',
    'it has no such child',
    (entries) => {
      const { change } = repeat(entries, changeOf(entries, 'derived'))
      Object.assign(change, { kind: 'refunded', childId: id(999) })
    },
  ],
  [
    'gets more back from a forgotten child than it gave',
    'more came back than was given',
    (entries) => {
      const { change } = repeat(entries, changeOf(entries, 'derived'))
      Object.assign(change, { childId: id(999), amounts: { tokens: 5 } })
      const back = repeat(entries, changeOf(entries, 'derived')).change
      Object.assign(back, { kind: 'refunded', childId: id(999), amounts: { tokens: 16 } })
    },
  ],
]

/** What no store decides, whatever the order. */
const IMPOSSIBLE: readonly (readonly [what: string, said: string, forge: Forgery])[] = [
  [
    'has the last fence there is',
    'fence must be at most 4503599627370496, got 9007199254740991',
    (all) => (leaseOf(all, 'work:w').fence = 2 ** 53 - 1),
  ],
  ['has no fence', `${NO_LEASE}.fence`, (all) => (leaseOf(all, 'work:w').fence = -1)],
  ['is for 142,710 years', `${NO_LEASE}.ttlMs`, (all) => (leaseOf(all, 'work:w').ttlMs = 2 ** 52)],
  ['is of the year 144,680', NO_LEASE, (all) => (leaseOf(all, 'work:w').expiresAtMs = 2 ** 52)],
  [
    'ends long after its TTL',
    'expiresAtMs must be at most',
    (all) => (leaseOf(all, 'work:w').expiresAtMs += 1e9),
  ],
  [
    'ends before it begins',
    'expiresAtMs must be at least',
    (all) => (leaseOf(all, 'work:w').expiresAtMs = 1),
  ],
  [
    'has a lone surrogate in its reason',
    NO_LEASE,
    (all) => (leaseOf(all, 'work:w').reason = 'why \ud800'),
  ],
  [
    'has more words than anybody may leave',
    NO_LEASE,
    (all) => (leaseOf(all, 'work:w').metadata = { a: 'x'.repeat(2_000) }),
  ],
  [
    'has a lone surrogate in the reason of its event',
    'lease.issued has no such reason',
    (all) => (issuedOf(all, 'work:w').reason = '\udc00'),
  ],
  ['was renewed before it began', 'begins', (all) => (leaseOf(all, 'work:w').renewals = 3)],
  ['takes its epoch back', 'to must be 8..100007, got 3', (all) => (advanceOf(all, 7)['to'] = 3)],
  [
    'uses up an epoch twice',
    'from must be at least 7, got 6',
    (all) => (advanceOf(all, 7)['from'] = 6),
  ],
  [
    'uses up more epochs than an advance may',
    'to must be 8..100007, got 100008',
    (all) => (advanceOf(all, 7)['to'] = 100_008),
  ],
  [
    'shares a workflow and uses up epochs',
    'it has no epoch to use up',
    (all) => (leaseOf(all.slice(0, 8), 'workflow:f').mode = 'shared'),
  ],
  [
    'is held longer than it may be',
    'deadline must be at most 1',
    (all) => (leaseOf(all, 'work:w').holdUntilUs = 1),
  ],
  ...(
    [
      ['was renewed', { renewedAtMs: 5 }],
      ['was over', { terminatedAtMs: 5 }],
      ['was given back', { releaseReason: 'voluntary' }],
      ['was locked', { lockedUntil: { domain: 'd', us: 5 } }],
      ['asked for more', { upgrading: true }],
    ] as const
  ).map(([what, facts]): (typeof FORGERIES)[number] => [
    `${what} before it began`,
    'a lease begins without renewals, an upgrade request, and an end',
    (all) => Object.assign(leaseOf(all, 'work:w'), facts),
  ]),
  [
    'begins with an epoch that was used up',
    'epoch must be at least 9, got 3',
    (all) => (leaseOf(all, 'workflow:f').epoch = 3),
  ],
  [
    'has an epoch, and is of no workflow',
    'epoch must be 0, got 3',
    (all) => (leaseOf(all, 'work:w').epoch = 3),
  ],
]

function advanceOf(entries: readonly Told[], from: number): Told['event'] {
  const found = entries.find(({ event }) => event['from'] === from)
  if (found === undefined) throw new Error(`no epoch was used up from ${from}`)
  return found.event
}

type Accounted = Told['event'] & { change: Change }

/** The same event once more, right after it. */
function repeat(entries: Told[], change: unknown): Accounted {
  const index = at(entries, change)
  const copy = structuredClone(entries[index])
  if (copy === undefined) throw new Error('there is no such change')
  entries.splice(index + 1, 0, copy)
  for (const [place, entry] of entries.entries()) entry.position = String(place + 1)
  return copy.event as Accounted
}

function at(entries: readonly Told[], change: unknown): number {
  return entries.findIndex(({ event }) => event['change'] === change)
}

describe('a ledger whose chain fits is refused where a lease', () => {
  it.each([...FORGERIES, ...IMPOSSIBLE])('%s', async (_what, said, forge) => {
    const entries = await family()
    expect(readLedger(chained(entries)).events).toHaveLength(entries.length)
    forge(entries)
    const read = (): unknown => readLedger(chained(entries))
    expect(read).toThrow(said)
    expect(read).toThrow(expect.objectContaining({ code: 'DECODE_ERROR' }))
    expect(read).toThrow(/^line \d+ cannot be taken: /)
  })

  it('ends before those that were derived from it', async () => {
    const one = new Family()
    const root = await one.root('work:w')
    const child = await one.derive(root)
    await one.release(root)
    const entries = await exported(one.store)
    const ends = entries.findIndex(
      ({ event }) => event.leaseId === child.id && event.after !== 'active',
    )
    entries.splice(ends, 2)
    expect(() => readLedger(chained(entries))).toThrow('its children have not ended')
  })

  it('gets more back than its child has left', async () => {
    const one = new Family()
    const root = await one.root('work:w')
    const wide = await one.derive(root, { budget: { tokens: 100 } })
    await one.release(await one.derive(wide, { budget: { tokens: 10 } }))
    const entries = await exported(one.store)
    changeOf(entries, 'refunded').amounts.tokens = 90
    expect(() => readLedger(chained(entries))).toThrow('other amounts came back')
  })
})

const RESOURCES = ['file:/r', 'file:/r/a', 'file:/r/b', 'work:1', 'work:2'] as const

/** One client that does whatever comes next, as far as the others let it. */
async function act(tenure: Tenure, random: () => number, rounds: number): Promise<void> {
  const pick = <Item>(items: readonly Item[]): Item => {
    return items[Math.floor(random() * items.length)] as Item
  }
  for (let round = 0; round < rounds; round += 1) {
    try {
      const mode = pick(['exclusive', 'shared'] as const)
      const span = { ttlMs: pick([60, 5_000]), waitMs: pick([0, 20]), autoRenew: false }
      const lease = await tenure.acquire(pick(RESOURCES), { ...span, mode, budget: { tokens: 9 } })
      const child = await lease.derive({ holder: 'kid', budget: { tokens: 3 }, autoRenew: false })
      await Promise.all([child.spend({ tokens: 2 }), lease.renew()])
      if (random() < 0.3) await child.release()
      if (random() < 0.3) await lease.transfer(pick(['ann', 'bob']))
      else await lease.release()
    } catch (error) {
      if (!isLeaseError(error)) throw error
    }
  }
}

describe('a ledger that a store has written is taken', () => {
  it.each(EVERY_STORE)('whatever several clients of %s did at once', async (name) => {
    const url = await freshStoreOf(name)
    const random = randomFrom(17)
    const clients = await Promise.all(
      ['ann', 'bob', 'cyd'].map((holder) => openTenure(url, { holder })),
    )
    await Promise.all(clients.flatMap((each) => [1, 2].map(() => act(each, random, 15))))
    const entries: readonly LedgerEntry[] =
      (await clients[0]?.history({ limit: 10_000, refusals: false })) ?? []
    expect(entries.length).toBeGreaterThan(20)
    await Promise.all(clients.map((each) => each.close()))
    const { events } = readLedger(chained(entries as unknown as Told[]))
    expect(events).toHaveLength(entries.length)
  })

  it.each([11, 12, 13, 15])('whatever happened in it (seed %i)', async (seed) => {
    const { store } = await livedWorld(seed, 500)
    const entries = await exported(store)
    expect(entries.length).toBeGreaterThan(50)
    expect(readLedger(chained(entries)).events).toHaveLength(entries.length)
  })

  it('also where retention has taken out the children of a lease that is live', async () => {
    const one = new Family()
    const root = await one.root('work:w')
    const wide = await one.derive(root, { budget: { tokens: 100 } })
    const child = await one.derive(wide, { budget: { tokens: 10 } })
    await one.spend(child, { tokens: 4 })
    await one.release(child)
    const before = (await exported(one.store)).length
    one.ticks.pass(1_000)
    const nowMs = one.ticks.wallMs() + 8e7
    await one.store.prune({ endedBeforeMs: nowMs, nowMs, batch: 100 })
    const entries = await exported(one.store)
    expect(entries.length).toBeLessThan(before)
    expect(readLedger(chained(entries)).events).toHaveLength(entries.length)
  })
})
