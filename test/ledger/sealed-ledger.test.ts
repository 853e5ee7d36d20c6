/** Lines that a chain takes and lines that it does not, whoever has written their hashes. */
import { hash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import {
  entryOf,
  isRecordLine,
  isRotationLine,
  LedgerChain,
  positionOf,
  realmNamed,
  recordOf,
} from '../../src/ledger/sealed-ledger.ts'
import { acquire } from '../core/builders.ts'
import { TinyRealm } from '../core/tiny-realm.ts'
import { released } from '../registrar/registrar-events.ts'

interface Line {
  readonly n?: number
  readonly position?: string
  readonly realm?: string
  readonly kind?: string
}

/** The first line of its realm, with a hash that fits. */
function lineOf({ n = 1, position = '5', realm = 'work:a', kind = 'event' }: Line): string {
  const body = `{"n":${n},"position":"${position}","realm":"${realm}","${kind}":{}`
  const start = hash('sha256', `tenure-chain/1\n${realm}`, 'hex')
  return `${body},"hash":"${hash('sha256', `${start}${body}`, 'hex')}"}`
}

describe('a chain', () => {
  it.each<Line>([
    {},
    { kind: 'record', realm: 'registrar:' },
    { kind: 'rotation', realm: 'keys:', position: '' },
  ])('begins with %j', (line) => {
    const chain = new LedgerChain()
    expect(chain.accept(lineOf(line))).toBeNull()
    expect(chain.isAtRotation).toBe(line.kind === 'rotation')
    expect(chain.lastPosition).toBe(line.kind === 'rotation' ? null : '5')
    expect(chain.count).toBe(1)
  })

  it.each<[Line, string]>([
    [{ position: '' }, 'is no event'],
    [{ realm: 'keys:' }, 'is no event'],
    [{ realm: 'registrar:' }, 'is no event'],
    [{ kind: 'record' }, 'is no event'],
    [{ kind: 'other' }, 'is no event'],
    [{ kind: 'rotation' }, 'is no rotation of keys'],
    [{ kind: 'rotation', realm: 'keys:' }, 'is no event'],
    [{ kind: 'rotation', position: '' }, 'is no event'],
    [{ n: 2 }, 'is numbered 2 instead of 1'],
  ])('does not begin with %j', (line, problem) => {
    expect(new LedgerChain().accept(lineOf(line))).toBe(problem)
  })

  it.each([
    ['4', 'stands after a later one'],
    ['5', 'stands after a later one'],
    ['6', null],
    ['50', null],
    ['0-7', null],
  ])('goes on from position 5 at %s: %o', (position, problem) => {
    const chain = new LedgerChain()
    chain.accept(lineOf({}))
    expect(chain.accept(lineOf({ n: 2, position, realm: 'work:b' }))).toBe(problem)
    expect(chain.count).toBe(problem === null ? 2 : 1)
  })

  it('tells of what it has written what a reader of it tells', () => {
    const realm = new TinyRealm()
    realm.run(acquire())
    const [event] = realm.ledger
    if (event === undefined) throw new Error('nothing was issued')
    const [writer, reader] = [new LedgerChain(), new LedgerChain()]
    const told = [
      () => writer.appendRotation({}),
      () => writer.append({ position: '1', event }),
      () => writer.appendRotation({}),
      () => writer.appendRecord(released()),
      () => writer.appendRecord(released()),
    ].map((write) => {
      expect(reader.accept(write())).toBeNull()
      expect(writer.isAtRotation).toBe(reader.isAtRotation)
      expect(writer.lastPosition).toBe(reader.lastPosition)
      return [writer.isAtRotation, writer.lastPosition]
    })
    expect(told).toEqual([
      [true, null],
      [false, '1'],
      [true, '1'],
      [false, '4'],
      [false, '5'],
    ])
  })

  it('takes no line whose hash is of another', () => {
    const line = lineOf({}).replace('"event":{}', '"event":{"a":1}')
    expect(new LedgerChain().accept(line)).toBe('does not fit its hash')
  })
})

describe('a line', () => {
  it('says what it is', () => {
    const [event, record] = [lineOf({}), lineOf({ kind: 'record', realm: 'registrar:' })]
    const rotation = lineOf({ kind: 'rotation', realm: 'keys:', position: '' })
    expect([event, record, rotation, 'x'].map(isRecordLine)).toEqual([false, true, false, false])
    expect([event, record, rotation, 'x'].map(isRotationLine)).toEqual([false, false, true, false])
    expect([event, record, rotation, 'x'].map(positionOf)).toEqual(['5', '5', '', null])
    expect([event, 'x'].map(realmNamed)).toEqual(['work:a', null])
  })

  it("of a registrar's own event has the record that was written, and no event", () => {
    const line = new LedgerChain().appendRecord(released())
    expect(recordOf(line)).toEqual(released())
    expect(() => entryOf(line)).toThrow('a line of the ledger is no event of a lease')
  })

  it('that is no event, no record or no JSON is not read as one', () => {
    expect(() => entryOf(lineOf({}))).toThrow('a line of the ledger is no event of a lease')
    expect(() => recordOf(lineOf({}))).toThrow("is no event of a registrar's own")
    expect(() => entryOf('{')).toThrow('a line of the ledger is no JSON')
  })
})
