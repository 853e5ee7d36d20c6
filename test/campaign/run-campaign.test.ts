/** The frame of the campaign, with parts that are made for it. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { CampaignUsageError, readCampaignOptions } from '../../campaign/campaign-options.ts'
import { pageOf } from '../../campaign/page.ts'
import type { Part, StepOutcome } from '../../campaign/part.ts'
import { readResults, totalsOf, verdictOf, writeResults } from '../../campaign/results.ts'
import { runCampaign, type TriedStep } from '../../campaign/run-campaign.ts'
import { search } from '../../campaign/search/search.ts'

let folder: string
let ran: string[]
let notices: string[]

beforeEach(() => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-campaign-'))
  ran = []
  notices = []
})

afterEach(() => {
  fs.rmSync(folder, { recursive: true, force: true })
})

const WELL: StepOutcome = { counts: { grants: 60 }, failures: [], shortfalls: [] }

function partOf(outcomes: Readonly<Record<string, StepOutcome | Error>>): Part {
  const steps = Object.entries(outcomes).map(([name, outcome]) => ({
    name,
    minutes: 2,
    run: async () => {
      ran.push(name)
      if (outcome instanceof Error) throw outcome
      return outcome
    },
  }))
  return { name: 'chaos', about: 'a trial', steps, atLeast: { grants: 100 } }
}

async function run(part: Part, ...args: readonly string[]): Promise<readonly TriedStep[]> {
  const options = readCampaignOptions(args, [part.name], () => 0)
  const shown = { onProgress: () => undefined, onStep: () => undefined, onNotice }
  return runCampaign({ options, parts: [part], folder, commit: 'abc', ...shown })
}

const onNotice = (line: string): void => void notices.push(line)
const results = () => readResults(folder, 'chaos')

describe('a part', () => {
  it('is kept when its steps together did enough and found nothing', async () => {
    const part = partOf({ first: WELL, second: WELL })
    expect(verdictOf(part, results())).toEqual({ kind: 'not run' })
    await run(part)
    expect(totalsOf(results())).toEqual({ grants: 120 })
    expect(verdictOf(part, results())).toEqual({ kind: 'kept' })
  })

  it('is below its minimum when its steps together did less, whatever they found', async () => {
    const part = partOf({ first: WELL })
    await run(part)
    const missing = ['60 of 100 grants']
    expect(verdictOf(part, results())).toEqual({ kind: 'below its minimum', missing })
  })

  it('is below its minimum when a step does not count, was not run, or could not be', async () => {
    const slow: StepOutcome = { ...WELL, shortfalls: ['too slow'] }
    const part = partOf({ first: WELL, second: slow, third: new Error('no server') })
    await run(part)
    expect(verdictOf(part, results())).toMatchObject({
      missing: ['second: too slow', 'third: could not be run: Error: no server'],
    })
    const more = partOf({ first: WELL, second: slow, third: WELL, fourth: WELL })
    expect(verdictOf(more, results())).toMatchObject({ kind: 'below its minimum' })
    expect(JSON.stringify(verdictOf(more, results()))).toContain('1 steps not run')
  })

  it('is below its minimum when one count is too small a share of another', async () => {
    const share = { count: 'killed', of: 'mutants', least: 0.95 }
    const part = (killed: number): Part => ({
      ...partOf({ only: { ...WELL, counts: { grants: 100, mutants: 200, killed } } }),
      sharesAtLeast: [share, { ...share, of: 'mutants of a folder that was not run' }],
    })
    await run(part(190))
    expect(verdictOf(part(190), results())).toEqual({ kind: 'kept' })
    await run(part(189))
    const missing = ['189 killed are fewer than 95 % of 200 mutants']
    expect(verdictOf(part(189), results())).toEqual({ kind: 'below its minimum', missing })
  })

  it('is shorter than a whole run when a step had less than its time, whatever it did', async () => {
    const part = partOf({ first: WELL, second: WELL })
    await run(part)
    await run(part, '--step', 'second', '--minutes', '1', '--write')
    const missing = ['1 of 2 steps had less than their time']
    const verdict = verdictOf(part, results())
    expect(verdict).toEqual({ kind: 'shorter than a whole run', missing })
    const page = pageOf([{ part, results: results(), changed: '7 files' }], [])
    const row = '| [chaos](#chaos) | shorter than a whole run | 120 grants | 100 grants | 7 files |'
    expect(page).toContain(row)
    expect(page).toContain(`- Missing: ${missing[0]}`)
  })

  it('has failed when any of its steps has', async () => {
    const part = partOf({ first: WELL, second: { ...WELL, failures: ['two holders'] } })
    await run(part)
    expect(verdictOf(part, results())).toEqual({ kind: 'failed', failures: 1 })
  })
})

describe('a campaign that is resumed', () => {
  it('runs again what failed, did not count, or was short, and nothing else', async () => {
    const part = partOf({
      whole: WELL,
      failing: { ...WELL, failures: ['two holders'] },
      slow: { ...WELL, shortfalls: ['too slow'] },
    })
    await run(part)
    ran = []
    await run(part, '--resume')
    expect(ran).toEqual(['failing', 'slow'])
    expect(results().steps.map(({ step }) => step)).toEqual(['whole', 'failing', 'slow'])
  })

  it('runs again what was shorter than a whole step', async () => {
    const part = partOf({ whole: WELL })
    await run(part, '--minutes', '1', '--write')
    expect(results().steps[0]).toMatchObject({ minutes: 1, wholeMinutes: 2, commit: 'abc' })
    await run(part, '--resume')
    await run(part, '--resume')
    expect(ran).toEqual(['whole', 'whole'])
  })

  it('says of how many other commits the steps are that it skips', async () => {
    const part = partOf({ first: WELL, second: WELL, third: WELL, fourth: new Error('no server') })
    await run(part)
    expect(notices).toEqual([])
    const at = (index: number): string => ['abc', 'def', 'abc+', '123'][index] ?? ''
    const steps = results().steps.map((step, index) => ({ ...step, commit: at(index) }))
    writeResults(folder, { part: 'chaos', steps })
    await run(part, '--resume')
    expect(notices).toEqual(['3 steps are done and skipped; 2 of them were run at 2 other commits'])
  })
})

describe('the results that are there', () => {
  it('are not replaced by those of a step that had less than its time, unless asked for', async () => {
    const part = partOf({ first: WELL, second: WELL })
    await run(part)
    const before = results()
    const tried = await run(part, '--minutes', '1')
    expect(tried).toMatchObject([{ isWritten: false }, { isWritten: false }])
    expect(tried).toMatchObject([{ result: { minutes: 1 } }, { result: { minutes: 1 } }])
    expect(results()).toEqual(before)
    expect(await run(part, '--minutes', '2')).toMatchObject([
      { isWritten: true },
      { isWritten: true },
    ])
  })

  it('are not replaced by those of a step that could not start', async () => {
    await run(partOf({ first: WELL, second: WELL }))
    const before = results()
    const uninstalled = { counts: {}, failures: [], shortfalls: ['Stryker is not installed'] }
    const part = partOf({ first: new Error('no server'), second: uninstalled })
    const tried = await run(part, '--minutes', '1', '--write')
    expect(tried).toMatchObject([{ isWritten: false }, { isWritten: false }])
    expect(results()).toEqual(before)
    const failed = { ...uninstalled, failures: ['two holders'] }
    expect(await run(partOf({ first: failed }))).toMatchObject([{ isWritten: true }])
  })
})

describe('a campaign of some steps', () => {
  it('is refused when no step has the text in its name', async () => {
    const message = '--step must be in the name of a step of chaos, got mysql'
    const refused = run(partOf({ sqlite: WELL }), '--step', 'mysql')
    await expect(refused).rejects.toThrow(new CampaignUsageError(message))
  })

  it('runs the steps alone that are named', async () => {
    await run(partOf({ sqlite: WELL, redis: WELL }), '--step', 'red')
    expect(ran).toEqual(['redis'])
  })
})

describe('a part whose steps run side by side', () => {
  it('has the results of all, each from a process of its own, in its own order', async () => {
    const part: Part = { ...search, name: 'search', atOnce: 2, steps: search.steps.slice(0, 2) }
    await run(part, '--minutes', '0.01', '--write')
    const { steps } = readResults(folder, 'search')
    expect(steps.map(({ step }) => step)).toEqual(['two clients', 'three clients'])
    for (const { counts, shortfalls } of steps) {
      expect(shortfalls).toEqual([])
      expect(counts['distinct states']).toBeGreaterThan(10)
    }
  })

  it('says of a step whose process failed that it could not be run', async () => {
    await run({ ...partOf({ nothing: WELL, either: WELL }), atOnce: 2 })
    expect(ran).toEqual([])
    expect(results().steps.map(({ shortfalls }) => shortfalls[0])).toEqual(
      ['nothing', 'either'].map((name) => {
        const why = `campaign/step-process.ts ended with 1: there is no step chaos, ${name}`
        return `could not be run: Error: ${why}`
      }),
    )
  })
})
