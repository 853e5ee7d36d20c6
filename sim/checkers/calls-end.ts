/**
 * I8, second half: every call ends in yes, no or a named unknown, within its bound; every error is a `LeaseError`;
 * nothing rejects into the void; and a client that was closed leaves no timer behind.
 */
import { seconds, type Checker, type Complaint, type Evidence } from '../evidence.ts'
import type { CallBegun, Logged } from '../log.ts'
import { stopsOf, type Stop } from './stops.ts'

/** The slowest clock, and a few turns of the event loop. */
const RATE_SLACK = 1.02
const SLACK_US = 50_000

export const callsEnd: Checker = {
  promise: 'I8',
  name: 'every call ends',
  check: (evidence) => [...endless(evidence), ...improper(evidence.log)],
}

function endless(evidence: Evidence): readonly Complaint[] {
  const stops = stopsOf(evidence)
  const endUs = new Map<number, number>()
  const deathUs = new Map<string, number>()
  for (const entry of evidence.log) {
    if (entry.kind === 'ended') endUs.set(entry.call, entry.atUs)
    if (entry.kind === 'crashed') deathUs.set(entry.session, entry.atUs)
  }
  const complaints: Complaint[] = []
  for (const entry of evidence.log) {
    if (entry.kind !== 'call') continue
    const allowedUs = allowedUntilUs(entry, stops.get(entry.process) ?? [])
    const endedUs = endUs.get(entry.call) ?? deathUs.get(entry.session) ?? evidence.endUs
    if (endedUs <= allowedUs) continue
    complaints.push(
      `${entry.session} ${entry.operation} of ${entry.resource ?? 'nothing'} begun at ` +
        `${seconds(entry.atUs)} had no answer by ${seconds(allowedUs)}`,
    )
  }
  return complaints
}

function allowedUntilUs(
  call: CallBegun & { readonly atUs: number },
  stops: readonly Stop[],
): number {
  let allowedUs = call.atUs + call.boundMs * 1000 * RATE_SLACK + SLACK_US
  for (const stop of stops) {
    const isDuring = stop.toUs > call.atUs && stop.fromUs < allowedUs
    if (isDuring) allowedUs += stop.toUs - Math.max(stop.fromUs, call.atUs)
  }
  return allowedUs
}

function improper(log: readonly Logged[]): readonly Complaint[] {
  const complaints: Complaint[] = []
  for (const entry of log) {
    if (entry.kind === 'unhandled') complaints.push(`unhandled: ${entry.message}`)
    if (entry.kind === 'ended' && entry.outcome === 'foreign_error') {
      complaints.push(`call ${entry.call} ended in something that is not a LeaseError`)
    }
    if (entry.kind === 'closed' && entry.timersLeft > 0) {
      complaints.push(`${entry.session} was closed and left ${entry.timersLeft} timers`)
    }
  }
  return complaints
}
