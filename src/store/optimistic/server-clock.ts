/**
 * What a server's clock says, as far as a client can know without asking.
 *
 * A reply tells the server's time at some moment between sending and receiving. So at the moment of receiving the
 * server's clock said at least that: `lowerUs` counts on from there, a little too slowly, and is not ahead of a server
 * whose clock runs about as fast as ours. Decisions are made, and dated, at that time; the server refuses those from its
 * future, and those that are older than the tolerance. Being wrong costs another call and nothing else.
 *
 * What a decision grants counts from the end of the tolerance, so a lease outlives its TTL by what is left of it. The
 * tolerance therefore follows the typical round trip, not the slowest: a call that is slow by chance comes too late, is
 * refused, and its decision is made again. What is typical depends on how much a call carries: five hundred renewals
 * take many times as long as one, and would all be refused if they had to be as quick.
 */
import type { Runtime } from '../../runtime/runtime.ts'

/** What an optimistic store must know of the server's time. */
export type ServerTime = Pick<ServerClock, 'lowerUs' | 'toleranceUs' | 'note' | 'reset'>

export interface Sample {
  readonly receivedMs: number
  readonly serverUs: number
  readonly roundTripMs: number
  readonly attempts: number
}

/** So much a garbage collection or a busy turn of the event loop may add to any call. */
const TOLERANCE_MS_MIN = 20
/** No call takes longer than this on any link that can be used. */
const TOLERANCE_MS_MAX = 5_000
/** A decision is made up to one way back behind the server's clock and takes one way there; the rest is for jitter. */
const TRIPS_TOLERATED = 3
const TRIPS_KEPT = 15
/** No clock that is kept by NTP is slewed faster. */
const RATE_DOUBT = 0.0005
/** After a long silence another call is better than leases that last longer. */
const DRIFT_MS_MAX = 50
/** A reading that is older is replaced by any other that took no longer than usual. */
const FRESH_MS = 1_000

export class ServerClock {
  readonly #runtime: Runtime
  #sample: Sample
  /** Calls that carried about as much, by the number of binary digits of how much it was. */
  readonly #trips: RoundTrips[] = []

  constructor(runtime: Runtime, first: Sample) {
    this.#runtime = runtime
    this.#sample = first
    this.#noteTrip(first)
  }

  /** At most what the server's clock says now. */
  lowerUs(): number {
    return Math.floor(lowerAt(this.#sample, this.#runtime.monotonicMs()))
  }

  /** How long a decision that is made now may take to get there, in a call that carries so many. */
  toleranceUs(attempts: number): number {
    const wayMs = Math.max(TOLERANCE_MS_MIN, TRIPS_TOLERATED * this.#typicalMs(attempts))
    const driftMs = driftAt(this.#sample, this.#runtime.monotonicMs())
    return Math.ceil(Math.min(TOLERANCE_MS_MAX, wayMs + 2 * driftMs) * 1000)
  }

  /** Believes whichever of two readings says more; a reading that contradicts the other means that the clock was set. */
  note(sample: Sample): void {
    this.#noteTrip(sample)
    const expectedUs = lowerAt(this.#sample, sample.receivedMs)
    const wasSetBack = sample.serverUs + sample.roundTripMs * 1000 < expectedUs
    if (wasSetBack || sample.serverUs >= expectedUs || this.#isDue(sample)) this.#sample = sample
  }

  /** A decision came from the server's future: whatever was believed is wrong. */
  reset(sample: Sample): void {
    this.#sample = sample
  }

  #noteTrip({ attempts, roundTripMs }: Sample): void {
    const size = sizeOf(attempts)
    for (const smaller of this.#trips.slice(0, size)) {
      // What carries less is no slower, even if none of that size was sent of late.
      if (smaller !== undefined && smaller.typicalMs > roundTripMs) smaller.add(roundTripMs)
    }
    const trips = (this.#trips[size] ??= new RoundTrips())
    trips.add(roundTripMs)
  }

  /** A call takes no less time than smaller ones do. Of a size that was never sent, only that much is known. */
  #typicalMs(attempts: number): number {
    let mostMs = 0
    for (const trips of this.#trips.slice(0, sizeOf(attempts) + 1)) {
      mostMs = Math.max(mostMs, trips?.typicalMs ?? 0)
    }
    return mostMs
  }

  #isDue({ receivedMs, roundTripMs, attempts }: Sample): boolean {
    const isOld = receivedMs - this.#sample.receivedMs > FRESH_MS
    return isOld && roundTripMs <= this.#typicalMs(attempts)
  }
}

function sizeOf(attempts: number): number {
  return attempts.toString(2).length
}

/** How long the last calls of a size took. */
class RoundTrips {
  readonly #tripsMs: number[] = []
  typicalMs = 0

  add(roundTripMs: number): void {
    this.#tripsMs.push(roundTripMs)
    if (this.#tripsMs.length > TRIPS_KEPT) this.#tripsMs.shift()
    const sorted = this.#tripsMs.toSorted((a, b) => a - b)
    this.typicalMs = sorted[(sorted.length - 1) >> 1] ?? roundTripMs
  }
}

/** How far the two clocks may have come apart since a reading. */
function driftAt({ receivedMs }: Sample, atMs: number): number {
  return Math.min(DRIFT_MS_MAX, RATE_DOUBT * (atMs - receivedMs))
}

function lowerAt(sample: Sample, atMs: number): number {
  const elapsedMs = atMs - sample.receivedMs
  return sample.serverUs + (elapsedMs - driftAt(sample, atMs)) * 1000
}
