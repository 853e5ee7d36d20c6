/**
 * The signs of the states: each has a shape of its own, so that it is known without its colour. The same signs stand in
 * lists, queues and timelines.
 */
import type { ComponentChild, JSX } from 'preact'
import type { LeaseInfo } from '../../core/lease.ts'
import type { MarkName } from '../state/holds.ts'
import { isExpiring } from '../state/lease-rows.ts'

export const MARK_WORDS: Readonly<Record<MarkName, string>> = {
  held: 'held',
  shared: 'held, shared',
  waiting: 'waiting',
  offered: 'offered',
  expiring: 'expiring',
  revoking: 'asked to finish',
  released: 'released',
  expired: 'expired',
  revoked: 'revoked',
  transferred: 'transferred',
  deadlock: 'deadlock',
  refused: 'refused',
  renewed: 'renewed',
  other: 'changed',
}

/** Drawn in a square of 12 by 12. */
const SHAPES: Readonly<Record<MarkName, ComponentChild>> = {
  held: <rect class="fill" x="2" y="2" width="8" height="8" rx="1.5" />,
  shared: (
    <>
      <rect class="line" x="1.75" y="1.75" width="6.5" height="6.5" rx="1.5" />
      <rect class="fill" x="4.5" y="4.5" width="6" height="6" rx="1.5" />
    </>
  ),
  waiting: <circle class="line" cx="6" cy="6" r="4" />,
  offered: (
    <>
      <circle class="line" cx="6" cy="6" r="4" />
      <circle class="fill" cx="6" cy="6" r="1.75" />
    </>
  ),
  expiring: <path class="fill" d="M6 1.5 11 10.5H1Z" />,
  revoking: (
    <>
      <rect class="line" x="2" y="2" width="8" height="8" rx="1.5" />
      <path class="line" d="M3.5 8.5l5-5" />
    </>
  ),
  released: <path class="line" d="M2 6.5 5 9.5 10.5 3" />,
  expired: <path class="line" d="M6 2 10.6 10.2H1.4Z" />,
  revoked: <path class="line heavy" d="M2.5 2.5l7 7m0-7l-7 7" />,
  transferred: <path class="line" d="M1.5 6h8M6.5 2.5 10 6 6.5 9.5" />,
  deadlock: (
    <>
      <path class="line" d="M3.8 1h4.4L11 3.8v4.4L8.2 11H3.8L1 8.2V3.8Z" />
      <path class="line" d="M4.2 4.2l3.6 3.6m0-3.6L4.2 7.8" />
    </>
  ),
  refused: <path class="line" d="M2 6h8" />,
  renewed: <path class="line" d="M6 2v8" />,
  other: <circle class="fill" cx="6" cy="6" r="1.5" />,
}

interface MarkProps {
  readonly name: MarkName
  /** For signs beside their own word. */
  readonly isSilent?: boolean
}

export function Mark({ name, isSilent = false }: MarkProps): JSX.Element {
  const label = isSilent
    ? ({ 'aria-hidden': 'true' } as const)
    : ({ role: 'img', 'aria-label': MARK_WORDS[name] } as const)
  return (
    <svg class={`mark ${name}`} viewBox="0 0 12 12" {...label}>
      {isSilent ? null : <title>{MARK_WORDS[name]}</title>}
      {SHAPES[name]}
    </svg>
  )
}

/** The same within another picture, at a place in it. */
export function MarkAt({ name, x, y }: { name: MarkName; x: number; y: number }): JSX.Element {
  return (
    <g class={`mark ${name}`} transform={`translate(${x - 6} ${y - 6})`}>
      {SHAPES[name]}
    </g>
  )
}

export function markOf(lease: LeaseInfo, nowMs: number): MarkName {
  if (lease.state === 'pending') return lease.fence === null ? 'waiting' : 'offered'
  if (lease.revoking !== null) return 'revoking'
  if (isExpiring(lease, nowMs)) return 'expiring'
  return lease.mode === 'shared' ? 'shared' : 'held'
}
