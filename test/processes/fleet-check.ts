/**
 * The independent check of a fleet. It looks at what the pollers logged and knows nothing of how Tenure works.
 *
 * A poll's interval is from its begin to its end. A poller that was killed has no line for the end, and one that was
 * stopped wrote it long after: their intervals end with their own view of the lease, which is when they would have
 * had to stop. No such allowance is made for a poller that was neither killed nor stopped.
 */
import type { FleetLine } from './fleet-log.ts'

export interface PollerLog {
  readonly worker: string
  /** Whether the process was killed or stopped. */
  readonly wasHarmed: boolean
  readonly lines: readonly FleetLine[]
}

export interface PollInterval {
  readonly worker: string
  readonly session: string
  readonly fence: number
  readonly fromUs: number
  readonly toUs: number
}

export function pollsOf({ worker, wasHarmed, lines }: PollerLog): readonly PollInterval[] {
  const open = new Map<string, { poll: PollInterval; untilUs: number }>()
  const polls: PollInterval[] = []
  const close = (session: string, endUs: number): void => {
    const known = open.get(session)
    if (known === undefined) return
    open.delete(session)
    const toUs = wasHarmed ? Math.min(endUs, known.untilUs) : endUs
    polls.push({ ...known.poll, toUs: Math.max(known.poll.fromUs, toUs) })
  }
  for (const line of lines) {
    if (line.kind === 'begin') {
      const { session, fence, atUs: fromUs, untilUs } = line
      open.set(session, { poll: { worker, session, fence, fromUs, toUs: fromUs }, untilUs })
    } else if (line.kind === 'renewed') {
      const known = open.get(line.session)
      if (known !== undefined) known.untilUs = Math.max(known.untilUs, line.untilUs)
    } else if (line.kind === 'end') close(line.session, line.atUs)
  }
  for (const [session, { untilUs }] of open) close(session, untilUs)
  return polls
}

/**
 * Two polls of one session at one moment, or a fence that does not grow from one owner to the next. Foreign instances
 * have no fence, which is logged as 0.
 */
export function doublePolls(polls: readonly PollInterval[]): readonly string[] {
  const found: string[] = []
  for (const group of bySession(polls).values()) {
    // One long poll may overlap several that follow, so the latest end so far counts.
    let latest: PollInterval | null = null
    for (const poll of group) {
      if (latest !== null && latest.toUs > poll.fromUs) {
        const overlapMs = (latest.toUs - poll.fromUs) / 1000
        found.push(`${poll.session}: ${latest.worker} and ${poll.worker} by ${overlapMs} ms`)
      }
      const isFenced = latest !== null && latest.fence > 0 && poll.fence > 0
      if (isFenced && latest?.worker !== poll.worker && (latest?.fence ?? 0) >= poll.fence) {
        found.push(`${poll.session}: fence ${poll.fence} after ${latest?.fence}`)
      }
      if (latest === null || poll.toUs >= latest.toUs) latest = poll
    }
  }
  return found
}

/** The longest time that each session was not polled, from the first poll of all until `endUs`. */
export function longestRests(
  polls: readonly PollInterval[],
  endUs: number,
): ReadonlyMap<string, number> {
  const rests = new Map<string, number>()
  for (const [session, group] of bySession(polls)) {
    let lastUs = group[0]?.fromUs ?? 0
    let longestUs = 0
    for (const { fromUs, toUs } of group) {
      longestUs = Math.max(longestUs, fromUs - lastUs)
      lastUs = Math.max(lastUs, toUs)
    }
    rests.set(session, Math.max(longestUs, endUs - lastUs) / 1000)
  }
  return rests
}

/** Milliseconds from the moment at which a poller stopped for good to the next one's first poll elsewhere. */
export function handoverGapsMs(logs: readonly PollerLog[]): readonly number[] {
  const polls = bySession(logs.flatMap(pollsOf))
  return logs.flatMap(({ worker, lines }) => {
    return lines.flatMap((line) => {
      if (line.kind !== 'stopped') return []
      const next = polls.get(line.session)?.find((poll) => poll.fromUs >= line.atUs)
      return next === undefined || next.worker === worker ? [] : [(next.fromUs - line.atUs) / 1000]
    })
  })
}

export function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function bySession(polls: readonly PollInterval[]): Map<string, PollInterval[]> {
  const groups = new Map<string, PollInterval[]>()
  for (const poll of polls.toSorted((a, b) => a.fromUs - b.fromUs)) {
    const group = groups.get(poll.session) ?? []
    group.push(poll)
    groups.set(poll.session, group)
  }
  return groups
}
