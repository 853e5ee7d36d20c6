/**
 * What a server's clock says, as far as a client can know without asking.
 *
 * A reply tells the server's time at some moment between sending and receiving. So at the moment of receiving the
 * server's clock said at least that: `lowerUs` counts on from there, a little too slowly, and is never ahead of a
 * server whose clock runs within a thousandth of ours. Decisions are made at that time; the server refuses those from
 * its future, and those that are older than the tolerance.
 */
import type { Runtime } from '../../runtime/runtime.ts'

/** What a speculating store must know of the server's time. */
export interface ServerTime {
  /** At most what the server's clock says now. */
  lowerUs(): number
  /** About what the server's clock says now. */
  wallMs(): number
  /** How long a decision that is made now may take to get there. */
  toleranceUs(): number
  /** What a reply said. */
  note(sample: Sample): void
  /** A decision came from the server's future: whatever was believed is wrong. */
  reset(sample: Sample): void
}

export interface Sample {
  readonly receivedMs: number
  readonly serverUs: number
  readonly roundTripMs: number
}

const TOLERANCE_MS_MIN = 20
/** After a long silence it is better to ask once more than to let every lease last longer. */
const TOLERANCE_MS_MAX = 1_000
const RATE_DOUBT = 0.001
/** What is left of a slow round trip with each one after it, in what the next may take. */
const SLOWNESS_KEPT = 0.9

export class ServerClock implements ServerTime {
  readonly #runtime: Runtime
  #sample: Sample
  /** How long round trips take of late; the one that told the time best was a quick one. */
  #slowMs: number

  constructor(runtime: Runtime, first: Sample) {
    this.#runtime = runtime
    this.#sample = first
    this.#slowMs = first.roundTripMs
  }

  lowerUs(): number {
    return Math.floor(lowerAt(this.#sample, this.#runtime.monotonicMs()))
  }

  /** Half a round trip off at most. */
  wallMs(): number {
    const { receivedMs, serverUs, roundTripMs } = this.#sample
    const elapsedMs = this.#runtime.monotonicMs() - receivedMs
    return Math.floor(serverUs / 1000 + elapsedMs + roundTripMs / 2)
  }

  /** Several round trips, and the doubt about the rate. */
  toleranceUs(): number {
    const { receivedMs } = this.#sample
    const doubtMs = 2 * RATE_DOUBT * (this.#runtime.monotonicMs() - receivedMs)
    const wayMs = Math.max(TOLERANCE_MS_MIN, 4 * this.#slowMs)
    return Math.ceil(Math.min(TOLERANCE_MS_MAX, wayMs + doubtMs) * 1000)
  }

  /** Believes whichever of two readings says more; a reading that contradicts the other means that the clock was set. */
  note(sample: Sample): void {
    this.#slowMs = Math.max(sample.roundTripMs, this.#slowMs * SLOWNESS_KEPT)
    const expectedUs = lowerAt(this.#sample, sample.receivedMs)
    const wasSetBack = sample.serverUs + sample.roundTripMs * 1000 < expectedUs
    if (wasSetBack || sample.serverUs >= expectedUs || this.#isOld(sample)) this.#sample = sample
  }

  reset(sample: Sample): void {
    this.#sample = sample
  }

  /** A slower reading is better than one whose doubt has grown larger than its difference. */
  #isOld(sample: Sample): boolean {
    return sample.receivedMs - this.#sample.receivedMs > 1_000
  }
}

function lowerAt({ receivedMs, serverUs }: Sample, atMs: number): number {
  return serverUs + (atMs - receivedMs) * 1000 * (1 - RATE_DOUBT)
}
