/** docs/reliability.md, from the results alone: a test compares the page with them. */
import type { Counts, Part } from './part.ts'
import {
  countsText,
  figure,
  isShort,
  totalsOf,
  verdictOf,
  type Find,
  type PartResults,
  type StepResult,
  type Verdict,
} from './results.ts'

export interface Tried {
  readonly part: Part
  readonly results: PartResults
  /** How much of `src` has changed since the oldest of the results: git knows, when the page is written. */
  readonly changed: string
}

export function pageOf(tried: readonly Tried[], finds: readonly Find[]): string {
  return [
    HEAD,
    ...table(
      ['part', 'outcome', 'what was done', 'minimum', '`src` changed since'],
      tried.map(({ part, results, changed }) => [
        `[${part.name}](#${part.name.replaceAll(' ', '-')})`,
        verdictText(verdictOf(part, results)),
        results.steps.length === 0 ? '—' : countsText(measured(part, totalsOf(results))),
        countsText(part.atLeast),
        changed,
      ]),
    ),
    '',
    '## What was found',
    '',
    ...(finds.length === 0
      ? ['Nothing so far.']
      : table(
          ['date', 'part', 'what', 'the test that finds it now'],
          finds.map(({ date, part, what, test }) => [
            date,
            part,
            what,
            test === null ? 'none: open' : `\`${test}\``,
          ]),
        )),
    '',
    ...tried.flatMap(sectionOf),
  ].join('\n')
}

/** Of what was done, that which has a minimum; the section of the part has all of it. */
function measured({ atLeast }: Part, totals: Counts): Counts {
  return Object.fromEntries(Object.keys(atLeast).map((name) => [name, totals[name] ?? 0]))
}

const HEAD = `# Reliability: what was tried

This page is written by \`npm run campaign\` from \`campaign/results\`; only what was found is noted by hand, in its \`finds.json\`. A part
that was changed and run again shows its last run; a failure that was seen before and is not explained stays among the finds. Each part says what it did, with
its dates and seeds, and fails when it did less than its minimum, because a trial in which nothing happened shows nothing. *Kept*
means: the minimum was reached and nothing failed. *Below its minimum* means: nothing failed, but too little was done to say more;
*shorter than a whole run*: a step had less than its time. Each row names the commit at which it was run, and \`src\` may have changed
since: the last column of the table counts its files that differ from the commit of the part's oldest row, as of when the page was written.
What Tenure promises, and what it does not, is in [the model](model.md); the grade of each store is on its page:
[SQLite](stores/sqlite.md), [PostgreSQL](stores/postgres.md), [Redis](stores/redis.md), [HTTP](stores/http.md).
`

function sectionOf({ part, results }: Tried): readonly string[] {
  const verdict = verdictOf(part, results)
  const lines = [
    `## ${part.name}`,
    '',
    part.about,
    '',
    `\`npm run campaign -- --only ${part.name}\``,
    '',
  ]
  if (results.steps.length === 0) return [...lines, 'Not run yet.', '']
  const missing = 'missing' in verdict ? verdict.missing : []
  return [
    ...lines,
    ...table(
      ['step', 'when (UTC)', 'commit', 'seed', 'length', 'what it did', 'outcome'],
      results.steps.map(rowOf),
    ),
    '',
    ...missing.flatMap((line) => [`- Missing: ${line}`]),
    ...results.steps.flatMap(({ step, failures }) => failures.map((line) => `- ${step}: ${line}`)),
    ...(verdict.kind === 'kept' ? [] : ['']),
  ]
}

function rowOf(result: StepResult): readonly string[] {
  const { step, at, commit, seed, counts, failures, shortfalls, note } = result
  const outcome = failures.length > 0 ? `${failures.length} failed` : shortfallText(shortfalls)
  const said = note === undefined ? outcome : `${outcome}; ${note}`
  return [step, at, commit, String(seed), lengthText(result), countsText(counts), said]
}

function shortfallText(shortfalls: readonly string[]): string {
  return shortfalls.length === 0 ? 'nothing failed' : 'does not count'
}

function lengthText(result: StepResult): string {
  const took = `${figure(result.seconds)} s`
  return isShort(result) ? `${took}, short (a whole run: ${result.wholeMinutes} min)` : took
}

export function verdictText(verdict: Verdict): string {
  return verdict.kind === 'failed' ? `**failed**: ${verdict.failures}` : verdict.kind
}

function table(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
): readonly string[] {
  const line = (cells: readonly string[]): string => {
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  }
  return [line(columns), line(columns.map(() => '---')), ...rows.map(line)]
}
