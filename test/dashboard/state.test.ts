/** What the page works out for itself, without a browser: rows, folders, spans, cycles. */
import { describe, expect, it } from 'vitest'
import type { LeaseEvent } from '../../src/core/event.ts'
import type { LeaseInfo } from '../../src/core/lease.ts'
import { parseResource } from '../../src/core/resource.ts'
import {
  barOf,
  labelOf,
  lanePlacesOf,
  type LanesShown,
} from '../../src/dashboard/parts/timeline-layout.ts'
import { shortName } from '../../src/dashboard/parts/words.ts'
import { heldAt, holdsOf, lanesOf, type Hold } from '../../src/dashboard/state/holds.ts'
import {
  folderRows,
  LeaseRows,
  comparerOf,
  matcherOf,
  SORT_KEYS,
  type LeaseFilter,
} from '../../src/dashboard/state/lease-rows.ts'
import { LiveLeases } from '../../src/dashboard/state/live-leases.ts'
import { fc } from '../fast-check.ts'
import { placed, waitEdgesOf } from '../../src/dashboard/state/wait-edges.ts'

function lease(resource: string, holder: string, facts: Partial<LeaseInfo> = {}): LeaseInfo {
  return {
    ...{ id: `${resource} ${holder}`, resource: parseResource(resource), holder, session: '' },
    ...{ mode: 'exclusive', extent: 'exact', state: 'active', fence: 1, ttlMs: 10_000 },
    ...{ createdAtMs: 0, grantedAtMs: 0, renewedAtMs: null, expiresAtMs: 10_000 },
    ...{ terminatedAtMs: null, deadline: null, remainingMs: 10_000, renewals: 0, maxRenewals: -1 },
    ...{ maxHoldMs: null, slots: null, lockDelayMs: 0, breakable: false, revoking: null },
    ...{ upgrading: false, epoch: null, adopted: true, group: null, priority: null },
    ...{ releaseReason: null, reason: null, metadata: null, ...facts },
  } as LeaseInfo
}

function waits(resource: string, holder: string): LeaseInfo {
  return lease(resource, holder, {
    state: 'pending',
    fence: null,
    grantedAtMs: null,
    expiresAtMs: null,
  })
}

const EVERYTHING: LeaseFilter = { text: '', kind: '', holder: '', shown: 'all' }

describe('the rows', () => {
  it('are after any changes what sorting everything anew would give', () => {
    const change = fc.record({
      name: fc.integer({ min: 0, max: 30 }),
      holder: fc.constantFrom('ann', 'bob'),
      renewals: fc.integer({ min: 0, max: 5 }),
      isGone: fc.boolean(),
    })
    const step = fc.array(change, { maxLength: 8 })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 6 }), fc.constantFrom(...SORT_KEYS), (steps, key) => {
        const leases = new LiveLeases()
        const rows = new LeaseRows(leases)
        const [filter, order] = [
          { ...EVERYTHING, holder: 'ann' },
          { key, isDescending: true },
        ]
        for (const changes of steps) {
          for (const { name, holder, renewals, isGone } of changes) {
            const one = lease(`work:${name}`, holder, { renewals, id: `${name}` })
            if (isGone) leases.remove(one.id)
            else leases.put(one)
          }
          const queueOf = (): number => 0
          const expected = [...leases.all()]
            .filter(matcherOf(filter, 0))
            .sort(comparerOf(order, queueOf))
          expect(rows.update(filter, order, 0)).toEqual(expected)
        }
      }),
    )
  })

  it('stand under their folder where it has more than one, and a closed folder hides them', () => {
    const leases = ['file:/a/b/one', 'file:/a/b/two', 'file:/a/c', 'work:x'].map((name) =>
      lease(name, 'ann'),
    )
    const shown = (closed: readonly string[]): readonly string[] => {
      return folderRows(leases, new Set(closed)).map(
        ({ label, depth }) => `${' '.repeat(depth)}${label}`,
      )
    }
    expect(shown([])).toEqual(['file:/a/b/', ' one', ' two', 'file:/a/c', 'work:x'])
    expect(shown(['file:/a/b/'])).toEqual(['file:/a/b/', 'file:/a/c', 'work:x'])
  })
})

describe('what an event told', () => {
  it('is newer than what a page says that was read before it', () => {
    const leases = new LiveLeases()
    leases.beginListing()
    const event = { leaseId: 'work:a ann', after: 'released' } as unknown as LeaseEvent
    leases.apply({ position: '1', event, lease: null })
    leases.addListed([lease('work:a', 'ann'), lease('work:b', 'bob')])
    leases.endListing()
    expect([...leases.all()].map(({ resource }) => resource)).toEqual(['work:b'])
  })

  it('leaves out what a new list no longer has', () => {
    const leases = new LiveLeases()
    leases.put(lease('work:gone', 'ann'))
    leases.put(waits('work:b', 'ann'))
    leases.beginListing()
    leases.addListed([lease('work:b', 'bob')])
    leases.endListing()
    expect(leases.counts).toEqual({ held: 1, waiting: 0 })
    expect(leases.kinds()).toEqual(['work'])
  })
})

describe('spans', () => {
  const common = {
    resource: parseResource('work:a'),
    session: '',
    renewals: 0,
    reason: null,
    requestId: null,
  }
  const issued = (leaseId: string, holder: string, atMs: number): LeaseEvent => {
    const granted = {
      ...lease('work:a', holder),
      grantedAtMs: atMs,
      createdAtMs: atMs,
      expiresAtMs: atMs + 10,
    }
    const own = {
      type: 'lease.issued',
      leaseId,
      holder,
      atMs,
      before: null,
      after: 'active',
      lease: granted,
    }
    return { ...common, ...own } as unknown as LeaseEvent
  }
  const ended = (type: string, leaseId: string, atMs: number): LeaseEvent => {
    const own = {
      type,
      leaseId,
      holder: 'ann',
      atMs,
      before: 'active',
      after: 'expired',
      terminatedAtMs: atMs,
    }
    return { ...common, ...own } as unknown as LeaseEvent
  }
  const rows = (events: readonly LeaseEvent[]): Parameters<typeof holdsOf>[0] => {
    return events.map((event, index) => ({ position: String(index), event }))
  }

  it('tell who held it at a moment: not at its end, and not past the time that it was granted for', () => {
    const holds = holdsOf(
      rows([issued('1', 'ann', 100), ended('lease.expired', '1', 105), issued('2', 'bob', 105)]),
      [],
      0,
    )
    const at = (atMs: number): readonly string[] => heldAt(holds, atMs).map(({ holder }) => holder)
    expect([at(99), at(100), at(104), at(105), at(114), at(115)]).toEqual([
      [],
      ['ann'],
      ['ann'],
      ['bob'],
      ['bob'],
      [],
    ])
  })

  it('tell of a holder up to its end where its renewals are not recorded', () => {
    const holds = holdsOf(rows([issued('1', 'ann', 100), ended('lease.released', '1', 150)]), [], 0)
    expect([109, 110, 149, 150].map((atMs) => heldAt(holds, atMs).length)).toEqual([1, 1, 1, 0])
  })

  it('begin where reading began when the ledger does not tell of the grant', () => {
    const [hold] = holdsOf(rows([ended('lease.released', '1', 50)]), [], 7)
    expect(hold).toMatchObject({ grantedAtMs: 7, endedAtMs: 50, end: 'released' })
  })

  it('that overlap stand below each other in one lane', () => {
    const holds = holdsOf(
      rows([
        issued('1', 'ann', 1),
        issued('2', 'bob', 2),
        ended('lease.expired', '1', 3),
        issued('3', 'cleo', 4),
      ]),
      [],
      0,
    )
    const [lane] = lanesOf(holds, 'resource')
    expect(lane?.tracks.map((track) => track.map(({ holder }) => holder))).toEqual([
      ['ann', 'cleo'],
      ['bob'],
    ])
  })
})

describe('waits', () => {
  it('that close a cycle are marked, and those behind it are not', () => {
    const graph = waitEdgesOf([
      ...[lease('db:a', 'ann'), lease('db:b', 'bob')],
      ...[waits('db:b', 'ann'), waits('db:a', 'bob'), waits('db:a', 'cleo')],
    ])
    expect([...graph.stuck].toSorted()).toEqual([
      'holder ann',
      'holder bob',
      'resource db:a',
      'resource db:b',
    ])
    expect(placed(graph).length).toBe(5)
  })

  it('that close a cycle are drawn first, however many wait for something else', () => {
    const crowd = Array.from({ length: 200 }, (_none, index) =>
      waits('work:hot', `waiter-${index}`),
    )
    const { stuck, waiting } = waitEdgesOf([
      ...[lease('work:hot', 'ann'), ...crowd],
      ...[lease('work:a', 'bob'), lease('work:b', 'cleo')],
      ...[waits('work:b', 'bob'), waits('work:a', 'cleo')],
    ])
    expect(waiting).toBe(202)
    expect([...stuck].toSorted()).toEqual([
      ...['holder bob', 'holder cleo', 'resource work:a', 'resource work:b'],
    ])
  })

  it('of a file are for whoever holds a folder above it, and sharers do not wait for each other', () => {
    const folder = lease('file:/repo/src', 'ann', { extent: 'subtree' })
    const shared = lease('work:s', 'ann', { mode: 'shared' })
    const graph = waitEdgesOf([
      folder,
      shared,
      waits('file:/repo/src/a.ts', 'bob'),
      { ...waits('work:s', 'cleo'), mode: 'shared' },
    ])
    expect(graph.edges.map(({ from, to }) => `${from} > ${to}`)).toEqual([
      'holder bob > resource file:/repo/src',
      'resource file:/repo/src > holder ann',
    ])
    expect(graph.stuck.size).toBe(0)
  })
})

describe('the names of a timeline', () => {
  const SHOWN: LanesShown = {
    ...{ label: 'holder', scale: { fromMs: 0, toMs: 1_000, width: 1_000 } },
    ...{ nowMs: 1_000, nameWidth: 200 },
  }

  function hold(holder: string, grantedAtMs: number, endedAtMs: number): Hold {
    return {
      ...{ leaseId: `${holder} ${grantedAtMs}`, resource: 'deploy:prod', holder, grantedAtMs },
      ...{ endedAtMs, end: 'released', isShared: false, isSubtree: false, askedAtMs: null },
      ...{ expiresAtMs: null, reason: null, fence: 1, renewedAtMs: [], moments: [] },
    }
  }

  it('stand in their bars, below those that are too short, and never below the next one', () => {
    const holds = [
      ...[hold('ci-4710', 100, 110), hold('ci-4711', 120, 130), hold('ci-4712', 200, 300)],
      ...[hold('ci-4713', 310, 315), hold('ci-4714', 980, 1_000)],
    ]
    const [place] = lanePlacesOf([{ name: 'deploy:prod', tracks: [holds] }], SHOWN)
    // The first would reach below the second, and the last beyond the edge.
    expect([...(place?.tracks[0]?.below ?? [])]).toEqual(['ci-4711 120', 'ci-4713 310'])
    expect(barOf(hold('ci-4712', 200, 300), SHOWN).characters).toBeGreaterThan(7)
  })

  it('keep their ends where they are cut: paths that begin alike are told apart', () => {
    expect(shortName('file:/repo/src/app.ts', 21)).toBe('file:/repo/src/app.ts')
    expect(shortName('file:/repo/src/app.ts', 16)).toBe('file…/src/app.ts')
  })

  it('have a line of their own in whatever lane needs it', () => {
    const span = fc.tuple(fc.integer({ min: -200, max: 1_200 }), fc.integer({ max: 300, min: 1 }))
    const name = fc.string({ minLength: 1, maxLength: 40 })
    const track = fc.array(fc.tuple(name, span), { maxLength: 12 })
    fc.assert(
      fc.property(fc.array(track, { minLength: 1, maxLength: 4 }), (tracks) => {
        const lane = {
          name: 'x'.repeat(30),
          tracks: tracks.map((own) =>
            own
              .map(([holder, [from, ms]]) => hold(holder, from, from + ms))
              .toSorted((one, other) => (one.grantedAtMs ?? 0) - (other.grantedAtMs ?? 0)),
          ),
        }
        const [first, second] = lanePlacesOf([lane, lane], SHOWN)
        let y = 0
        for (const { holds, y: trackY, below } of first?.tracks ?? []) {
          expect(trackY).toBeGreaterThanOrEqual(y)
          y = trackY + (below.size === 0 ? 22 : 35)
          for (const [index, own] of holds.entries()) {
            if (!below.has(own.leaseId)) continue
            const { fromX, characters } = barOf(own, SHOWN)
            const { length } = labelOf(own, SHOWN)
            expect(length).toBeGreaterThan(characters)
            const next = holds[index + 1]
            const freeX = next === undefined ? 1_000 : barOf(next, SHOWN).x
            expect(fromX + length * 6.7).toBeLessThanOrEqual(Math.min(freeX, 1_000))
          }
        }
        expect(second?.y).toBe(first?.endY)
        expect(second?.y).toBeGreaterThanOrEqual(Math.max(y, 28))
      }),
    )
  })
})
