/** The lines of a ledger that was exported, as they come: with numbers, realms and ends that a store does not write. */
import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { readLedger } from '../../src/ledger/read-ledger.ts'
import { LedgerChain } from '../../src/ledger/sealed-ledger.ts'
import { acquire, id, release, WAITING } from '../core/builders.ts'
import { TinyRealm } from '../core/tiny-realm.ts'

type Loose = Record<string, unknown>
type Forge = (number: number) => (events: readonly Loose[]) => unknown

/** In the lease of the first event. */
function inLease(name: string): Forge {
  return (number) => (events) => Object.assign(events[0]?.['lease'] ?? {}, { [name]: number })
}

/** A lease that was held and given back, and one that waits; changed before they are written down. */
function written(change: (events: readonly Loose[]) => unknown = () => null): string {
  const realm = new TinyRealm()
  realm.run(acquire({ leaseId: id(1), holder: 'ada', metadata: { fence: 2 ** 53 - 1 } }))
  realm.run(acquire({ leaseId: id(2), holder: 'bob', ...WAITING }))
  realm.run(release())
  const events = structuredClone(realm.ledger)
  change(events as unknown as Loose[])
  const chain = new LedgerChain()
  const lines = events.map((event, index) => chain.append({ position: `${index + 1}`, event }))
  return lines.map((line) => `${line}\n`).join('')
}

describe('a ledger is read', () => {
  it('as what happened, whatever a holder wrote beside it', () => {
    const { events } = readLedger(written())
    expect(events.map(({ type }) => type)).toContain('lease.released')
    expect(readLedger('').events).toEqual([])
  })

  const us = 2 ** 52
  const ms = Math.floor(us / 1_000)
  it.each<[string, number, Forge]>([
    ['atMs', ms, (atMs) => (events) => Object.assign(events[0] ?? {}, { atMs })],
    ['renewals', us, (renewals) => (events) => Object.assign(events[0] ?? {}, { renewals })],
    ...['epoch', 'fence', 'holdUntilUs'].map((name): [string, number, Forge] => {
      return [`lease.${name}`, us, inLease(name)]
    }),
    ...['createdAtMs', 'grantedAtMs', 'renewedAtMs', 'expiresAtMs', 'terminatedAtMs'].map(
      (name): [string, number, Forge] => [`lease.${name}`, ms, inLease(name)],
    ),
    [
      'lease.deadline.us',
      us,
      (number) => (events) => {
        const issued = events[0]?.['lease'] as Loose | undefined
        Object.assign(issued?.['deadline'] ?? {}, { us: number })
      },
    ],
    [
      'ticket.orderUs',
      us,
      (orderUs) => (events) => Object.assign(events[1]?.['ticket'] ?? {}, { orderUs }),
    ],
  ])('unless its %s leaves a store no room to count on', (name, most, forge) => {
    const read = (number: number) => (): unknown => readLedger(written(forge(number)))
    const tooLarge = `${name} must be at most ${most}, got ${most + 1}`
    expect(read(most + 1)).toThrow(tooLarge)
    expect(read(most + 1)).toThrow(expect.objectContaining({ code: 'DECODE_ERROR' }))
    expect(read(most)).not.toThrow(`${name} must be at most`)
  })
})

describe('a ledger is refused at the line', () => {
  it('that stands in the chain of another realm', () => {
    const [line = ''] = written().split('\n')
    const body = line.replace(/"realm":"[^"]*"/, '"realm":"work:other"').replace(/,"hash":.*/, '')
    const start = hash('sha256', 'tenure-chain/1\nwork:other', 'hex')
    const moved = `${body},"hash":"${hash('sha256', `${start}${body}`, 'hex')}"}\n`
    expect(() => readLedger(moved)).toThrow('line 1 cannot be taken: names another realm')
  })

  it('that is cut off', () => {
    const text = written()
    expect(() => readLedger(text.slice(0, -1))).toThrow(
      expect.objectContaining({
        code: 'DECODE_ERROR',
        details: { line: text.split('\n').length - 1 },
      }),
    )
  })
})
