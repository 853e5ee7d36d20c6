/**
 * What the leases are for: resources somewhere downstream that keep the highest fences they have seen and refuse lower
 * ones. An exclusive writer must have a fence as high as all before it; a sharer, as high as all exclusive writers before it.
 * A write travels through the network like everything else, so it may arrive after its lease is over, and after its
 * writer has died.
 */
import type { Log, WriteFacts } from './log.ts'
import type { Random } from './random.ts'
import type { Incarnation } from './sim-process.ts'

const DELAY_US_MIN = 100
const DELAY_US_MAX = 400_000

export class FencedResources {
  readonly #log: Log
  readonly #random: Random
  readonly #marks = new Map<string, { alone: number; shared: number }>()

  constructor(log: Log, random: Random) {
    this.#log = log
    this.#random = random
  }

  send(writer: Incarnation, write: WriteFacts): void {
    this.#log.write({ kind: 'write_sent', ...writer.who, ...write })
    const delayUs = this.#random.magnitude(DELAY_US_MIN, DELAY_US_MAX)
    writer.process.world.schedule(delayUs, () => {
      this.#receive(write)
      return false
    })
  }

  #receive(write: WriteFacts): void {
    const { resource, mode, fence } = write
    const marks = this.#marks.get(resource) ?? { alone: 0, shared: 0 }
    this.#marks.set(resource, marks)
    const isAlone = mode === 'exclusive'
    const accepted = fence >= (isAlone ? Math.max(marks.alone, marks.shared) : marks.alone)
    if (accepted && isAlone) marks.alone = fence
    if (accepted && !isAlone) marks.shared = Math.max(marks.shared, fence)
    this.#log.count(accepted ? 'write: accepted' : 'write: refused by its fence')
    this.#log.write({ kind: 'write_arrived', ...write, accepted })
  }
}
