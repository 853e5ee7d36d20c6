/**
 * `npm run campaign`: tries Tenure at length. `campaign-options.ts` has the options, docs/reliability.md what came of it. The
 * servers and processes that a step starts end with this process.
 */
import fs from 'node:fs'
import path from 'node:path'
import {
  CampaignUsageError,
  helpOf,
  readCampaignOptions,
  type CampaignOptions,
} from './campaign-options.ts'
import { pageOf, verdictText } from './page.ts'
import { ROOT } from './part.ts'
import { PARTS } from './parts.ts'
import { countsText, readFinds, readResults, totalsOf, verdictOf, withStep } from './results.ts'
import { runCampaign, type TriedStep } from './run-campaign.ts'
import { changedSince, commitOf } from './sources.ts'

const RESULTS = path.join(ROOT, 'campaign', 'results')
const PAGE = path.join(ROOT, 'docs', 'reliability.md')

async function main(args: readonly string[]): Promise<number> {
  const names = PARTS.map(({ name }) => name)
  const options = readCampaignOptions(args, names, Math.random)
  if (options.isHelp) {
    process.stdout.write(helpOf(names))
    return 0
  }
  const ran = options.isPageOnly ? [] : await runAll(options)
  if (options.isPageOnly || ran.some(({ isWritten }) => isWritten)) writePage()
  let isKept = true
  for (const part of PARTS.filter(({ name }) => options.parts.includes(name))) {
    const results = ran
      .filter((step) => step.part === part)
      .reduce((known, { result }) => withStep(part, known, result), readResults(RESULTS, part.name))
    const verdict = verdictOf(part, results)
    isKept &&= verdict.kind === 'kept'
    const missing = 'missing' in verdict ? ` (${verdict.missing.join('; ')})` : ''
    say(
      `${part.name.padEnd(14)} ${verdictText(verdict)}${missing}; ${countsText(totalsOf(results))}`,
    )
  }
  return isKept || options.isPageOnly ? 0 : 1
}

function runAll(options: CampaignOptions): Promise<readonly TriedStep[]> {
  const run = { options, parts: PARTS, folder: RESULTS, commit: commitOf(ROOT) }
  return runCampaign({ ...run, onProgress: showProgress, onNotice: say, onStep: showStep })
}

function writePage(): void {
  const tried = PARTS.map((part) => {
    const results = readResults(RESULTS, part.name)
    return { part, results, changed: changedSince(ROOT, results) }
  })
  fs.writeFileSync(PAGE, pageOf(tried, readFinds(RESULTS)))
}

/** One line that is written over, on a terminal; elsewhere each step has its closing line only. */
function showProgress(line: string): void {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${line}`)
}

function showStep({ part, result, isWritten }: TriedStep): void {
  const { step, seconds, counts, failures, shortfalls } = result
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K')
  const outcome = failures.length > 0 ? 'FAILED' : shortfalls.length > 0 ? 'does not count' : 'ok'
  const kept = isWritten ? '' : '; the result is not kept'
  say(`${part.name}, ${step}: ${outcome} in ${seconds} s, ${countsText(counts)}${kept}`)
  for (const line of [...failures, ...shortfalls]) say(`  ${line}`)
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

// Interrupted, it leaves nothing behind: servers and workers end with this process.
for (const [signal, status] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  process.once(signal, () => process.exit(status))
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof CampaignUsageError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 2
}
