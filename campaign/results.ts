/**
 * What the steps did, as it is kept in campaign/results, one file for each part. The files are committed: the page is made
 * from them, and `--resume` goes on after the steps that they tell of.
 */
import fs from 'node:fs'
import path from 'node:path'
import type { Counts, Part, StepOutcome } from './part.ts'

export interface StepResult extends StepOutcome {
  readonly step: string
  readonly seed: number
  /** When it began, as a date and time in UTC. */
  readonly at: string
  /** The commit whose sources were tried, abbreviated; with a plus sign if they had been changed since. */
  readonly commit: string
  /** How long it was allowed to go on, and how long a whole run is. */
  readonly minutes: number
  readonly wholeMinutes: number
  readonly seconds: number
}

export interface PartResults {
  readonly part: string
  readonly steps: readonly StepResult[]
}

/** Something that the campaign found, and the test that would find it now. */
export interface Find {
  readonly date: string
  readonly part: string
  readonly what: string
  /** Null while it is not explained, or not mended. */
  readonly test: string | null
}

export function readResults(folder: string, part: string): PartResults {
  const file = path.join(folder, `${part}.json`)
  if (!fs.existsSync(file)) return { part, steps: [] }
  return JSON.parse(fs.readFileSync(file, 'utf8')) as PartResults
}

export function writeResults(folder: string, results: PartResults): void {
  const file = path.join(folder, `${results.part}.json`)
  fs.writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`)
}

export function readFinds(folder: string): readonly Find[] {
  return JSON.parse(fs.readFileSync(path.join(folder, 'finds.json'), 'utf8')) as Find[]
}

/** The results with one more, in the order of the part's steps; an earlier result of the same step is replaced. */
export function withStep(part: Part, results: PartResults, added: StepResult): PartResults {
  const others = results.steps.filter(({ step }) => step !== added.step)
  const all = [...others, added]
  const steps = part.steps.flatMap(({ name }) => all.filter(({ step }) => step === name))
  return { part: part.name, steps }
}

/** A step that ran as long as a whole run, found nothing and did enough need not be run again. */
export function isDone(result: StepResult | undefined): boolean {
  if (result === undefined || result.failures.length > 0) return false
  return result.shortfalls.length === 0 && !isShort(result)
}

export function isShort({ minutes, wholeMinutes }: StepResult): boolean {
  return minutes < wholeMinutes
}

/** A step that lacks something, such as its server, has counted nothing. */
export function hasStarted({ counts, failures }: StepResult): boolean {
  return Object.keys(counts).length > 0 || failures.length > 0
}

export function totalsOf({ steps }: PartResults): Counts {
  return sumOf(steps.map(({ counts }) => counts))
}

function sumOf(all: readonly Counts[]): Counts {
  const sums: Record<string, number> = {}
  for (const counts of all) {
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count
  }
  return sums
}

/** Points that were met less often than they must be, as one line. */
function rarePoints(part: Part, { steps }: PartResults): readonly string[] {
  const { pointsAtLeast: least } = part
  if (least === undefined) return []
  const points = Object.entries(sumOf(steps.map((step) => step.points ?? {})))
  const rare = points.filter(([, count]) => count < least).toSorted(([, a], [, b]) => a - b)
  if (rare.length === 0) return []
  const [[name, count] = ['', 0]] = rare
  const which = `${rare.length} of ${points.length} points met fewer than ${figure(least)} times`
  return [`${which}, “${name}” ${figure(count)} times`]
}

/** Shares that are smaller than they must be. Of nothing there is none. */
function smallShares({ sharesAtLeast = [] }: Part, totals: Counts): readonly string[] {
  return sharesAtLeast.flatMap(({ count, of, least }) => {
    const [part, whole] = [totals[count] ?? 0, totals[of] ?? 0]
    if (part >= least * whole) return []
    return [`${figure(part)} ${count} are fewer than ${least * 100} % of ${figure(whole)} ${of}`]
  })
}

export type Verdict =
  | { readonly kind: 'not run' }
  | { readonly kind: 'failed'; readonly failures: number }
  | {
      readonly kind: 'below its minimum' | 'shorter than a whole run'
      readonly missing: readonly string[]
    }
  | { readonly kind: 'kept' }

export function verdictOf(part: Part, results: PartResults): Verdict {
  if (results.steps.length === 0) return { kind: 'not run' }
  const failures = results.steps.reduce((sum, step) => sum + step.failures.length, 0)
  if (failures > 0) return { kind: 'failed', failures }
  const totals = totalsOf(results)
  const few = Object.entries(part.atLeast).flatMap(([name, least]) => {
    const count = totals[name] ?? 0
    return count >= least ? [] : [`${figure(count)} of ${figure(least)} ${name}`]
  })
  const unrun = part.steps.length - results.steps.length
  const short = results.steps.filter(isShort).length
  const shorter =
    short > 0 ? [`${short} of ${part.steps.length} steps had less than their time`] : []
  const fellShort = results.steps.flatMap(({ step, shortfalls }) => {
    return shortfalls.map((shortfall) => `${step}: ${shortfall}`)
  })
  const missing = [
    ...few,
    ...smallShares(part, totals),
    ...rarePoints(part, results),
    ...fellShort,
    ...(unrun > 0 ? [`${unrun} steps not run`] : []),
  ]
  if (missing.length > 0) return { kind: 'below its minimum', missing: [...missing, ...shorter] }
  if (short > 0) return { kind: 'shorter than a whole run', missing: shorter }
  return { kind: 'kept' }
}

export function figure(count: number): string {
  return count.toLocaleString('en-US')
}

export function countsText(counts: Counts): string {
  const entries = Object.entries(counts).map(([name, count]) => `${figure(count)} ${name}`)
  return entries.length === 0 ? '—' : entries.join(', ')
}
