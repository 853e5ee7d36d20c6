/** Everybody wants one resource for a while: once, checked and judged. */
import { nowUs } from './contend.ts'
import { contentionOf, overlapOf, type Contention, type Turns } from './turns.ts'

export interface Bout {
  /** Of all workers. */
  readonly names: readonly string[]
  /** Until all have come together and the compiler has seen everything; not counted. */
  readonly leadInMs: number
  readonly roundMs: number
  readonly play: (untilUs: number) => Promise<Turns>
}

export interface Judged {
  readonly contention: Contention
  /** Handovers before and after what counts, too: the store was asked for these as well. */
  readonly served: number
}

/** Throws if two had it at one time. */
export async function judgeBout({ names, leadInMs, roundMs, play }: Bout): Promise<Judged> {
  const fromUs = nowUs() + leadInMs * 1_000
  const untilUs = fromUs + roundMs * 1_000
  const turns = await play(untilUs)
  const overlap = overlapOf(turns.turns)
  if (overlap !== null) throw new Error(overlap)
  const all = contentionOf(turns, names, { fromUs: 0, untilUs })
  return {
    contention: contentionOf(turns, names, { fromUs, untilUs }),
    // Whoever still waited at the end was served later.
    served: all.handovers + turns.waiting.length,
  }
}
