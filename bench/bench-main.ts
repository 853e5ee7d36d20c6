/**
 * `npm run bench`: Tenure beside its peers, in one run on the same servers. See `bench-options.ts` for the options and
 * docs/benchmarks.md for what came out. Exit code 1: something could not be measured; 2: the options make no sense.
 */
import fs from 'node:fs'
import path from 'node:path'
import { onFault } from '../src/runtime/diagnostics.ts'
import { HELP, readOptions, UsageError } from './bench-options.ts'
import { describeMachine } from './report/machine.ts'
import { pageOf, tablesOf, type Run } from './report/page.ts'
import { plotsOf } from './report/plots.ts'
import { terminalText } from './report/table.ts'
import type { WorkName } from './plan.ts'
import { messageOf, rowOf } from './result.ts'
import { runBench, type Findings } from './run-bench.ts'
import { ROOT } from './systems/load-peer.ts'

async function main(args: readonly string[]): Promise<number> {
  const { plan, isJson, isHelp, docs, isWrittenOften } = readOptions(args, path.join(ROOT, 'docs'))
  if (isHelp) {
    process.stdout.write(HELP)
    return 0
  }
  const startMs = performance.now()
  const say = (line: string): void => {
    const seconds = Math.round((performance.now() - startMs) / 1_000)
    process.stderr.write(`${String(seconds).padStart(5)} s  ${line}\n`)
  }
  onFault(({ source, error }) => say(`${source}: ${messageOf(error)}`))
  const machine = await describeMachine(commandOf(args))
  const onWork = (findings: Findings, missing: readonly WorkName[]): void => {
    if (docs === null || (missing.length > 0 && !isWrittenOften)) return
    writeDocs(docs, { plan, missing, machine, findings })
  }
  const findings = await runBench(plan, { say, onWork })
  const run = { plan, missing: [], machine, findings }
  process.stdout.write(isJson ? jsonText(run) : tablesOf(run).map(terminalText).join('\n'))
  say('done')
  return findings.results.some(({ error }) => error !== null) ? 1 : 0
}

/** As others would repeat it: where its page was written is nobody's business. */
function commandOf(args: readonly string[]): string {
  const shown = args.filter((arg, index) => arg !== '--docs' && args[index - 1] !== '--docs')
  return ['npm run bench', ...(shown.length === 0 ? [] : ['--', ...shown])].join(' ')
}

function jsonText({ findings: { results } }: Run): string {
  return `${JSON.stringify(
    results.map((result) => rowOf(result, results)),
    null,
    2,
  )}\n`
}

function writeDocs(folder: string, run: Run): void {
  const plots = plotsOf(run.findings)
  for (const { file, svg } of plots) fs.writeFileSync(path.join(folder, file), svg)
  fs.writeFileSync(path.join(folder, 'benchmarks.md'), pageOf(run, plots))
}

// Interrupted, it leaves nothing behind: the servers end with this process, and `exit` removes the rest.
for (const [signal, status] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  process.once(signal, () => process.exit(status))
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof UsageError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 2
}
