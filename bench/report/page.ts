/** docs/benchmarks.md, written whole by each run. */
import type { Plan, WorkName } from '../plan.ts'
import type { Findings } from '../run-bench.ts'
import { amountTable } from './amounts.ts'
import { contendedTables, pauseTables } from './contended-tables.ts'
import { headOf } from './head.ts'
import { machineTable, type Machine } from './machine.ts'
import { manyTables } from './many-tables.ts'
import type { Plot } from './plots.ts'
import { markdownText, type Table } from './table.ts'
import {
  failureTables,
  keepingTables,
  profileTables,
  hookTables,
  httpTables,
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

export function pageOf({ plan, missing, machine, findings }: Run, plots: readonly Plot[]): string {
  const pictures = (file: string): readonly string[] =>
    plots.filter((plot) => plot.file === file).map((plot) => `![${plot.alt}](${plot.file})\n`)
  const chapter = (title: string, tables: readonly Table[], file = ''): readonly string[] =>
    tables.length === 0 ? [] : [`## ${title}\n`, ...pictures(file), ...tables.map(markdownText)]
  return [
    headOf(plan.works.filter((work) => !missing.includes(work))),
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
    ...chapter('Over HTTP', httpTables(findings)),
    ...chapter('Start-up', [...startUpTables(findings), ...hookTables(findings)]),
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
    ...httpTables(findings),
    ...startUpTables(findings),
    ...hookTables(findings),
    ...profileTables(findings),
    ...targetTables(findings, plan.isJudged),
    ...failureTables(findings),
  ]
}
