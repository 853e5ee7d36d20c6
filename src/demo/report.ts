/**
 * What an agent of the demo tells of its own accord. These reports, not the store, are what the independent check at
 * the end looks at. Times are of the host's monotonic clock, which all agents share.
 */

const KINDS = [
  'asks',
  'holds',
  'renewed',
  'about_to_write',
  'wrote',
  'refused',
  'released',
  'lost',
] as const

export type ReportKind = (typeof KINDS)[number]

export interface AgentReport {
  readonly kind: ReportKind
  readonly agent: string
  readonly file: string
  readonly atUs: number
  /** 0 before there is one. */
  readonly fence: number
  /** With `holds` and `renewed`: the agent's own deadline. With `refused`: the fence that was in the way. Else 0. */
  readonly value: number
}

export function isReport(message: unknown): message is AgentReport {
  if (typeof message !== 'object' || message === null) return false
  const report = message as Partial<Record<keyof AgentReport, unknown>>
  return (
    KINDS.some((kind) => kind === report.kind) &&
    typeof report.agent === 'string' &&
    typeof report.file === 'string' &&
    [report.atUs, report.fence, report.value].every(Number.isFinite)
  )
}

export function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

/** What an agent does besides its work: one is killed while it holds, one is stopped just before a write. */
export type AgentRole = 'worker' | 'killed' | 'stopped'

/** What an agent is told at its start. */
export interface Assignment {
  readonly name: string
  readonly role: AgentRole
  readonly storeUrl: string
  readonly files: readonly string[]
  /** With which file to begin; all go round in the same order. */
  readonly firstFile: number
  readonly ttlMs: number
  /** After so long the role begins: the agent clings to its next lease, or pauses before its next write. */
  readonly cueMs: number
}
