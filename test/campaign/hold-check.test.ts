/** The checker of the chaos must be able to fail: each violation is planted in logs that are otherwise well. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkHolds, type HoldFacts } from '../../campaign/chaos/hold-check.ts'
import { HoldLog, type HoldLine } from '../../campaign/chaos/hold-log.ts'
import { ROOT } from '../../campaign/part.ts'

let folder: string

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-holds-'))
})

afterEach(() => {
  fs.rmSync(folder, { recursive: true, force: true })
})

function check(...logs: readonly (readonly HoldLine[])[]): HoldFacts {
  const paths = logs.map((lines, index) => {
    const file = path.join(folder, `${index}.log`)
    fs.rmSync(file, { force: true })
    const log = new HoldLog(file)
    for (const line of lines) log.write(line)
    return file
  })
  return checkHolds(paths)
}

/** Ann holds resource 1 until 100, is renewed until 150 and lets go at 120; ben holds it from 130 on, and never lets go. */
const ANN: readonly HoldLine[] = [
  ['start', 10, 1, 1, 5, 100, 10],
  ['write', 20, 1, 1],
  ['renewed', 60, 1, 150],
  ['end', 120, 1, 'released'],
  ['released', 125, 1],
  ['refused', 140, 'WAIT_TIMEOUT'],
]
const BEN: readonly HoldLine[] = [
  ['error', 50, 'STORE_UNAVAILABLE'],
  ['start', 130, 1, 1, 6, 230, 130],
  ['write', 131, 1, 2],
]

describe('the checker of holds', () => {
  it('finds nothing where nothing is wrong, and counts what was done', () => {
    expect(check(ANN, BEN)).toMatchObject({
      ...{ operations: 7, calls: 5, grants: 2, expired: 1, renewals: 1, writes: 2, lateWrites: 0 },
      ...{ overlaps: [], fenceFaults: [], fencesBack: [], staleWrites: [], wrongRefusals: [] },
      undecided: [],
      refusals: { WAIT_TIMEOUT: 1 },
      errors: { STORE_UNAVAILABLE: 1 },
      lastStartUs: [10, 130],
    })
  })

  it('sees two holders, whether the first was renewed or never ended', () => {
    const early: readonly HoldLine[] = [['start', 110, 1, 1, 6, 210, 110]]
    expect(check(ANN, early).overlaps).toEqual([
      'resource 1: 0/1 (fence 5) and 1/1 (fence 6) hold together from 110 µs on, by 40 µs',
    ])
    expect(check(ANN.slice(0, 1), [['start', 99, 1, 1, 6, 200, 99]]).overlaps).toHaveLength(1)
    expect(check(ANN.slice(0, 1), [['start', 100, 1, 1, 6, 200, 100]]).overlaps).toEqual([])
  })

  it('sees a holder that goes on after another has begun', () => {
    const [start = ['refused', 0, '']] = ANN
    expect(check([start, ['renewed', 140, 1, 240]], BEN).overlaps).toHaveLength(1)
  })

  it('takes a holder whose view is over when it begins for none', () => {
    const late: HoldLine = ['start', 150, 1, 1, 4, 150, 150]
    expect(check(ANN, BEN, [late])).toMatchObject({ overlaps: [], fenceFaults: [], grants: 3 })
  })

  it('sees a fence that goes back, and one that is given twice', () => {
    for (const fence of [4, 5]) {
      const lower: readonly HoldLine[] = [['start', 130, 1, 1, fence, 230, 130]]
      expect(check(ANN, lower).fenceFaults).toEqual([`resource 1: fence ${fence} after 5`])
    }
  })

  it('knows which of two grants is the later one only where the second was asked for after the first', () => {
    const first: HoldLine = ['start', 100, 1, 1, 6, 200, 90]
    const second = (fence: number, askedUs: number): HoldLine => {
      return ['start', 120, 1, 1, fence, 220, askedUs]
    }
    expect(check([first], [second(7, 110)]).fencesBack).toEqual([])
    expect(check([first], [second(5, 99)]).fencesBack).toEqual([])
    expect(check([first], [second(5, 100)]).fencesBack).toEqual([
      'resource 1: fence 5 was asked for after 6 had been given',
    ])
    expect(check([first], [second(6, 110)]).fencesBack).toHaveLength(1)
    const other: HoldLine = ['start', 115, 1, 2, 5, 220, 110]
    expect(check([first], [other]).fencesBack).toEqual([])
    const third: HoldLine = ['start', 300, 1, 1, 6, 300, 210]
    expect(check([first], [second(7, 110)], [third]).fencesBack).toHaveLength(1)
  })

  it('sees a stale write by the order of the guard, not by the time of the log', () => {
    const late: HoldLine = ['write', 300, 1, 3]
    expect(check([...ANN, late], BEN)).toMatchObject({
      staleWrites: ['resource 1: a write of 5 after 6'],
      lateWrites: 1,
    })
    expect(check([...ANN.slice(0, -1), ['write', 132, 1, 0]], BEN).staleWrites).toEqual([])
  })

  it('sees a refusal of a write whose holder still holds, and counts one that is late', () => {
    const refused: readonly HoldLine[] = [...BEN, ['write', 140, 1, null]]
    expect(check(ANN, refused).wrongRefusals).toEqual(['1/1 held resource 1'])
    const late: readonly HoldLine[] = [...BEN, ['write', 231, 1, null]]
    expect(check(ANN, late)).toMatchObject({ wrongRefusals: [], refusedWrites: 1, lateWrites: 1 })
  })

  it('does not decide what is not told, and reads no line that a kill cut short', () => {
    expect(check([['end', 5, 9, 'lost']]).undecided).toHaveLength(1)
    expect(check([ANN[0] ?? BEN[0], ['refused', 4, '']] as HoldLine[]).undecided).toHaveLength(1)
    expect(check([...ANN, ['renewed', 200, 1, 300]]).undecided).toHaveLength(1)
    expect(check([...ANN.slice(0, 3), ['released', 125, 1]]).undecided).toHaveLength(1)
    expect(
      check(ANN, [
        ['start', 160, 1, 2, 1, 170, 160],
        ['write', 161, 1, 1],
      ]).undecided,
    ).toHaveLength(1)
    const file = path.join(folder, 'cut.log')
    fs.writeFileSync(file, '["start",10,1,1,5,100,9]\n["start",10]\nnonsense\n["write",2')
    expect(checkHolds([file])).toMatchObject({ grants: 1, writes: 0 })
    expect(checkHolds([file]).undecided).toHaveLength(2)
  })

  it('decides nothing by a line that has a field which is none', () => {
    const lines = [
      '["start",10,1,1,5,null,10]',
      '["start",10,1,1,5,100,null]',
      '["start",10,1,1,null,100,10]',
      '["start",10,1,1,5.5,100,10]',
      '["start",10,1,1,0,100,10]',
      '["start",10,1,"1",5,100,10]',
      '["start",10,null,1,5,100,10]',
      '["start","10",1,1,5,100,10]',
      '["start",-1,1,1,5,100,10]',
      '["start",10,1,1,5,100,10,0]',
      '["renewed",10,1,null]',
      '["end",10,1,"gone"]',
      '["write",10,1,-1]',
      '["write",10,1,"1"]',
      '["refused",10,null]',
      '["error",10]',
      '["constructor",10]',
      '[["error"],10,"STORE_UNAVAILABLE"]',
      'null',
    ]
    const file = path.join(folder, 'odd.log')
    const undecided = lines.map((line) => {
      fs.writeFileSync(file, `${line}\n`)
      const { undecided: told, operations, errors } = checkHolds([file])
      return [line, told, operations, errors]
    })
    const none = ['log 0 has a line that is none']
    expect(undecided).toEqual(lines.map((line) => [line, none, 0, {}]))
  })

  it('counts no call for a release that was not answered', () => {
    const unanswered = ANN.filter(([kind]) => kind !== 'released')
    expect(check(unanswered, BEN)).toMatchObject({ operations: 7, calls: 4, expired: 1 })
  })

  it('decides nothing by a hold that begins twice', () => {
    const again: HoldLine = ['start', 125, 1, 1, 6, 130, 125]
    expect(check([...ANN.slice(0, 4), again]).undecided).toEqual(['0/1 begins twice'])
  })

  it('merges many logs in the order of time', () => {
    const logs = Array.from({ length: 40 }, (_, log): readonly HoldLine[] =>
      Array.from({ length: 50 }, (_, turn): readonly HoldLine[] => {
        const atUs = 1_000 * (turn * 40 + ((log * 17) % 40)) + 1
        const start: HoldLine = ['start', atUs, turn + 1, 1, atUs, atUs + 2_000, atUs]
        return [start, ['end', atUs + 999, turn + 1, 'released']]
      }).flat(),
    )
    expect(check(...logs)).toMatchObject({ grants: 2_000, overlaps: [], fenceFaults: [] })
    const [first = [], ...others] = logs
    const unending = first.filter(([kind]) => kind !== 'end')
    expect(check(unending, ...others).overlaps).toHaveLength(50)
  })

  it('imports nothing of what it checks', () => {
    for (const name of ['hold-check.ts', 'hold-log.ts']) {
      const text = fs.readFileSync(path.join(ROOT, 'campaign', 'chaos', name), 'utf8')
      const imported = [...text.matchAll(/from '([^']+)'/g)].map(([, from]) => from)
      expect(imported.filter((from) => from !== 'node:fs' && from !== './hold-log.ts')).toEqual([])
    }
  })
})
