/**
 * What the leases are for: resources somewhere downstream that keep the highest fence they have seen and refuse lower
 * ones. A write travels through the network like everything else, so it may arrive after its lease is over, and after
 * its writer has died.
 */
import type { Log, WriteFacts } from './log.ts'
import type { Random } from './random.ts'
import type { Incarnation } from './sim-process.ts'

const DELAY_US_MIN = 100
const DELAY_US_MAX = 400_000

export class FencedResources {
  readonly #log: Log
  readonly #random: Random
  readonly #highest = new Map<string, number>()

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
    const highest = this.#highest.get(write.resource) ?? 0
    const accepted = write.fence >= highest
    if (accepted) this.#highest.set(write.resource, write.fence)
    this.#log.count(accepted ? 'write: accepted' : 'write: refused by its fence')
    this.#log.write({ kind: 'write_arrived', ...write, accepted })
  }
}
