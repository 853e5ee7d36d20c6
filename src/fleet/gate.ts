/**
 * Lets a few handovers at a time begin. A session rests from the moment its poller stops until the receiver has begun;
 * if a thousand began at once, all of them would rest until the last had been received. So groups of them follow each
 * other at short intervals, and no group waits for a poll that takes its time.
 */
import type { Runtime } from '../runtime/runtime.ts'

const GROUP = 8
const EVERY_MS = 4

export class Gate {
  readonly #runtime: Runtime
  readonly #waiting: (() => void)[] = []
  #passed = 0

  constructor(runtime: Runtime) {
    this.#runtime = runtime
  }

  /** Resolves when it is this one's turn. */
  pass(): Promise<void> {
    if (this.#passed < GROUP) {
      this.#count()
      return Promise.resolve()
    }
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  #count(): void {
    this.#passed += 1
    if (this.#passed === 1) {
      this.#runtime.setTimer(EVERY_MS, () => this.#next(), { keepAlive: true })
    }
  }

  #next(): void {
    this.#passed = 0
    for (const resolve of this.#waiting.splice(0, GROUP)) {
      this.#count()
      resolve()
    }
  }
}
