/** Clocks that a run sets for the processes that it starts, by libfaketime. */
import fs from 'node:fs'
import { fakeTimeLibrary } from '../../test/fake-clock.ts'
import { processStartMs } from './host-clock.ts'

/** Wall time alone; the monotonic clock stays true. */
export class FaketimeFile {
  readonly #file: string
  #rate = 1
  offsetMs = 0

  constructor(file: string) {
    this.#file = file
    this.#write()
  }

  /** What a process has to be started with. */
  get env(): Readonly<Record<string, string>> {
    return {
      LD_PRELOAD: fakeTimeLibrary(),
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Sets the clock, by so much from where it stands. */
  step(ms: number): void {
    this.offsetMs += ms
    this.#write()
  }

  /**
   * Lets the clock run at another rate from now on. The library counts a rate from the start of the process on; what would
   * be a jump of the clock is taken back.
   */
  run(rate: number, pid: number): void {
    this.offsetMs += (this.#rate - rate) * (Date.now() - processStartMs(pid))
    this.#rate = rate
    this.#write()
  }

  /** Whole at every moment: a process reads it at each look at its clock. */
  #write(): void {
    const seconds = (Math.abs(this.offsetMs) / 1000).toFixed(6)
    const text = `${this.offsetMs < 0 ? '-' : '+'}${seconds} x${this.#rate}`
    fs.writeFileSync(`${this.#file}.new`, text)
    fs.renameSync(`${this.#file}.new`, this.#file)
  }
}

/** What a process has to be started with, whose clocks are all to run at this rate, the monotonic one as well. */
export function rateEnv(rate: number): Readonly<Record<string, string>> {
  return { LD_PRELOAD: fakeTimeLibrary(), FAKETIME: `+0 x${rate}` }
}
