/**
 * I6: active, then released, expired or revoked, and nothing after that. A lease is issued once; what is past its
 * deadline can only become expired, so a renewal or a release that was accepted after the deadline is a way back too.
 * A holder that once saw its lease lost or released never sees it held again.
 */
import type { LeaseId } from '../../src/core/lease.ts'
import { hasPassed, type Tick } from '../../src/core/time.ts'
import { isHolding, seconds, short } from '../evidence.ts'
import type { Checker, Complaint, Evidence } from '../evidence.ts'

export const noWayBack: Checker = {
  promise: 'I6',
  name: 'no way back',
  check: (evidence) => [...inLedger(evidence), ...inHandles(evidence)],
}

interface Life {
  deadline: Tick
  ended: string | null
}

function inLedger({ ledger }: Evidence): readonly Complaint[] {
  const lives = new Map<LeaseId, Life>()
  const complaints: Complaint[] = []
  for (const { event, tick, atUs } of ledger) {
    const { leaseId, type } = event
    const life = lives.get(leaseId)
    const complain = (why: string): void => {
      complaints.push(`${type} of ${short(leaseId)} at ${seconds(atUs)}: ${why}`)
    }
    if (type === 'lease.issued') {
      if (life !== undefined) complain('it was issued before')
      lives.set(leaseId, { deadline: event.lease.deadline, ended: null })
    } else if (life !== undefined) {
      const problem = problemOf(life, type, tick)
      if (problem !== null) complain(problem)
      if (type === 'lease.renewed') life.deadline = event.deadline
      if (ENDS.has(type)) life.ended ??= type
    }
  }
  return complaints
}

const ENDS: ReadonlySet<string> = new Set(['lease.released', 'lease.expired', 'lease.revoked'])

function problemOf(life: Life, type: string, tick: Tick): string | null {
  const isAboutDelay = type === 'lease.unlocked' || type === 'lease.expired'
  if (life.ended !== null) {
    return life.ended === 'lease.expired' && isAboutDelay ? null : `it had ended (${life.ended})`
  }
  if (type === 'lease.expired') return null
  return hasPassed(life.deadline, tick) ? 'its deadline had passed' : null
}

function inHandles({ handles }: Evidence): readonly Complaint[] {
  return handles.flatMap(({ looks }) => {
    const over = looks.findIndex((look) => !isHolding(look))
    const again = over < 0 ? undefined : looks.slice(over).find(isHolding)
    if (again === undefined) return []
    return [`${again.session} saw ${short(again.leaseId)} ${again.state} again after its end`]
  })
}
