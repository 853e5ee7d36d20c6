/**
 * The time of the host, for processes that a library shows another one: what the kernel says in files is true for all of
 * them. It says it in hundredths of a second, so that a precise time is had from the moment at which one begins.
 */
import fs from 'node:fs'

const TICKS_PER_SECOND = 100
/** Of those in /proc/PID/stat that follow the name of the program. */
const START_FIELD = 19
/** A process that was interrupted during two looks did not see when the hundredth began. */
const LOOKS_APART_US_MAX = 200

/** How a process that sees another time knows that of the host. */
export interface ClockOrder {
  /** At which its clocks run. */
  readonly rate: number
  /** The time since boot minus that of the monotonic clock, without the library. */
  readonly bootAheadUs: number
}

export function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

export function bootAheadUs(): number {
  const { bootUs, ownUs } = momentOfBootClock()
  return bootUs - ownUs
}

/** The monotonic clock of the host, in microseconds. */
export function hostClock(order: ClockOrder): () => number {
  const { bootUs, ownUs } = momentOfBootClock()
  const fromUs = bootUs - order.bootAheadUs
  return () => Math.round(fromUs + (monotonicUs() - ownUs) / order.rate)
}

/**
 * A moment at which the time since boot changes, and the monotonic clock of this process at that moment: between the
 * beginning of a look that does not show the change and the end of the next one.
 */
function momentOfBootClock(): { readonly bootUs: number; readonly ownUs: number } {
  for (let before = look(); ;) {
    const next = look()
    const isClose = next.untilUs - before.fromUs < LOOKS_APART_US_MAX
    if (next.ticks !== before.ticks && isClose) {
      const bootUs = (next.ticks * 1e6) / TICKS_PER_SECOND
      return { bootUs, ownUs: (before.fromUs + next.untilUs) / 2 }
    }
    before = next
  }
}

function look(): { readonly fromUs: number; readonly ticks: number; readonly untilUs: number } {
  const fromUs = monotonicUs()
  const ticks = uptimeTicks()
  return { fromUs, ticks, untilUs: monotonicUs() }
}

function uptimeTicks(): number {
  const [seconds = ''] = fs.readFileSync('/proc/uptime', 'latin1').split(' ')
  return Math.round(Number(seconds) * TICKS_PER_SECOND)
}

/** When a process began, as wall time, to a hundredth of a second. */
export function processStartMs(pid: number): number {
  const stat = fs.readFileSync(`/proc/${pid}/stat`, 'latin1')
  const startTicks = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[START_FIELD])
  return Date.now() - ((uptimeTicks() - startTicks) * 1000) / TICKS_PER_SECOND
}
