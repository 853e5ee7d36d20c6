/** docs/benchmarks.md, written whole by each run. */
import type { Plan, WorkName } from '../plan.ts'
import type { Findings } from '../run-bench.ts'
import { amountTable } from './amounts.ts'
import { contendedTables, pauseTables } from './contended-tables.ts'
import { machineTable, type Machine } from './machine.ts'
import { manyTables } from './many-tables.ts'
import type { Plot } from './plots.ts'
import { markdownText, type Table } from './table.ts'
import {
  failureTables,
  keepingTables,
  profileTables,
  startUpTables,
  systemTable,
  uncontendedTables,
} from './tables.ts'
import { targetTables } from './targets.ts'

export interface Run {
  readonly plan: Plan
  /** What the plan has and is not there yet. */
  readonly missing: readonly WorkName[]
  readonly machine: Machine
  readonly findings: Findings
}

const HEAD = `# Benchmarks

Tenure beside what people use today, in one run on the same servers. This page and its plots are written by
\`npm run bench\`; \`npm run bench -- --quick\` shows every ratio within a minute, \`-- --help\` the options.
[What an operation costs](performance.md) says why some targets are missed.

How to read it:

- Only ratios count. A shared machine is noisy, so uncontended and contended everybody is measured in turns (A B C, B A C …)
  after the same time to warm up, a ratio is taken within each round, and the table shows the median of the rounds and, in
  brackets, from where to where they went. Growth is measured beside a small store in the same rounds; pauses, keeping and
  processor time one after the other.
- **The floor** (Redis, PostgreSQL) and **the limit** (SQLite) are written by hand and do nothing but what the work asks
  for. The limit has no callers at all: it is a loop that writes the rows of 100 operations in one transaction.
- \`tenure\` is what applications hold (\`openTenure\`: handles that renew themselves, notice loss, wait in a queue);
  \`tenure-service\` is what it stands on (\`openApi\`: ids and outcomes).
- The settings of the peers are printed. For those who wait by asking again this run has tried several pauses first, and each
  contends with the one that gave it the most handovers (*Pauses of those who poll*). What a peer does not offer is in the
  same table.
- Renewals ask for another expiry each time: SQLite skips a write of the same bytes, and would show five times the true rate.
- With one operation in flight it matters whether client and server share a core, so both are measured, pinned by
  \`taskset\`. With 100 in flight nothing is pinned.
- A *handover* is a turn that another worker had before. Whoever takes a lock straight back after releasing it has handed
  nothing over, however fast. A hold of 1 ms is one to the microsecond, in
  which the process goes on with everything else; between two turns a worker lets the others of its process run.
- Before and after the uncontended work each system must show that it excludes; in the contended work every turn is checked,
  between processes too, and who overlaps once is out of what follows. What overlaps, throws, or does not answer for two
  minutes is listed under *Not scored*.
`

export function pageOf({ plan, missing, machine, findings }: Run, plots: readonly Plot[]): string {
  const pictures = (file: string): readonly string[] =>
    plots.filter((plot) => plot.file === file).map((plot) => `![${plot.alt}](${plot.file})\n`)
  const chapter = (title: string, tables: readonly Table[], file = ''): readonly string[] =>
    tables.length === 0 ? [] : [`## ${title}\n`, ...pictures(file), ...tables.map(markdownText)]
  return [
    HEAD,
    ...(missing.length === 0 ? [] : [`**Not finished**: without ${missing.join(', ')}.\n`]),
    ...chapter('What Tenure means to reach', targetTables(findings, plan.isJudged)),
    ...chapter('Where it was measured', [machineTable(machine), amountTable(plan, missing)]),
    ...chapter('What is compared', [
      systemTable(findings.systems, plan.stores),
      ...pauseTables(findings),
    ]),
    ...chapter('Uncontended', uncontendedTables(findings), 'bench-uncontended.svg'),
    ...chapter('Contended', contendedTables(findings), 'bench-contended.svg'),
    ...chapter('Many leases', manyTables(findings), 'bench-growth.svg'),
    ...chapter('Keeping', keepingTables(findings)),
    ...chapter('Start-up', startUpTables(findings)),
    ...chapter('Where the time goes', profileTables(findings)),
    ...chapter('Failures', failureTables(findings)),
  ].join('\n')
}

/** The same tables, for a terminal. */
export function tablesOf({ plan, missing, machine, findings }: Run): readonly Table[] {
  return [
    machineTable(machine),
    amountTable(plan, missing),
    systemTable(findings.systems, plan.stores),
    ...pauseTables(findings),
    ...uncontendedTables(findings),
    ...contendedTables(findings),
    ...manyTables(findings),
    ...keepingTables(findings),
    ...startUpTables(findings),
    ...profileTables(findings),
    ...targetTables(findings, plan.isJudged),
    ...failureTables(findings),
  ]
}
