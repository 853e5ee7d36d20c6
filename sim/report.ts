/**
 * What a person reads after a run: the seeds, what was done to them, what came of each promise, and how to see a
 * failure again.
 */
import { ATTEMPT_SHAPES } from './attempt-shapes.ts'
import { FAULT_KINDS, type FaultKind } from './log.ts'
import { SHAPES } from './shapes.ts'
import { brokenPromises, lineOf, replayCommand, type Report } from './run-seed.ts'

/** Adds up reports without keeping them: a long run has many seeds. */
export class Tally {
  readonly #faults = new Map<FaultKind, number>()
  readonly #outcomes = new Map<string, number>()
  readonly #verdicts = new Map<string, { failures: number; replay: string | null }>()
  #worlds = 0
  #events = 0

  add(report: Report): void {
    this.#worlds += 1
    this.#events += report.eventCount
    addTo(this.#faults, report.faults)
    addTo(this.#outcomes, report.outcomes)
    for (const { promise, name, complaints } of report.verdicts) {
      const title = `${promise} ${name}`
      const verdict = this.#verdicts.get(title) ?? { failures: 0, replay: null }
      this.#verdicts.set(title, verdict)
      if (complaints.length === 0) continue
      verdict.failures += 1
      verdict.replay ??= replayCommand(report)
    }
  }

  get isClean(): boolean {
    return [...this.#verdicts.values()].every(({ failures }) => failures === 0)
  }

  get faults(): ReadonlyMap<FaultKind, number> {
    return this.#faults
  }

  get outcomes(): ReadonlyMap<string, number> {
    return this.#outcomes
  }

  /** The summary, one line each. */
  lines(): readonly string[] {
    const faults = FAULT_KINDS.map((kind) => `${kind} ${this.#faults.get(kind) ?? 0}`)
    const verdicts = [...this.#verdicts].map(([title, { failures, replay }]) => {
      if (replay === null) return `  ${title}: kept`
      return `  ${title}: BROKEN in ${failures} of ${this.#worlds} worlds; ${replay}`
    })
    const shapes = [...SHAPES, ...ATTEMPT_SHAPES].map((shape) => {
      return `  ${shape}: ${this.#outcomes.get(shape) ?? 0}`
    })
    return [
      `${this.#worlds} worlds, ${this.#events} events`,
      `faults: ${faults.join(', ')}`,
      'occurred:',
      ...shapes,
      'promises:',
      ...verdicts,
    ]
  }
}

function addTo<Key>(sums: Map<Key, number>, counts: ReadonlyMap<Key, number>): void {
  for (const [key, count] of counts) sums.set(key, (sums.get(key) ?? 0) + count)
}

const COMPLAINTS_SHOWN = 5

/** What went wrong with one seed, and how to see it again. */
export function failureLines(report: Report): readonly string[] {
  const lines = brokenPromises(report).flatMap(({ promise, name, complaints }) => [
    `seed ${report.seed} on the ${report.store} store broke ${promise} ${name}:`,
    ...complaints.slice(0, COMPLAINTS_SHOWN).map((complaint) => `  ${complaint}`),
    ...(complaints.length > COMPLAINTS_SHOWN ? [`  and ${complaints.length} in all`] : []),
  ])
  return lines.length === 0 ? [] : [...lines, `replay: ${replayCommand(report)}`]
}

/** Everything that happened, in order of true time: what the processes saw, and what the store wrote down. */
export function* traceLines({ evidence }: Report): Generator<string, void, undefined> {
  let next = 0
  for (const entry of evidence.log) {
    for (let timed = evidence.ledger[next]; timed && timed.atUs <= entry.atUs;) {
      yield `${(timed.atUs / 1_000_000).toFixed(6)} store ${JSON.stringify(timed.event)}`
      next += 1
      timed = evidence.ledger[next]
    }
    yield lineOf(entry).trimEnd()
  }
}
