/** Wall time that a run sets for the processes that it starts, by libfaketime; the monotonic clock stays true. */
import fs from 'node:fs'

const LIBRARY = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'

export class FaketimeFile {
  readonly #file: string
  #offsetMs = 0

  constructor(file: string) {
    this.#file = file
    this.#write('+0')
  }

  /** What a process has to be started with. */
  get env(): Readonly<Record<string, string>> {
    if (!fs.existsSync(LIBRARY)) throw new Error(`${LIBRARY} is missing: apt-get install faketime`)
    return {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: this.#file,
      FAKETIME_NO_CACHE: '1',
      DONT_FAKE_MONOTONIC: '1',
    }
  }

  /** Sets the clock, by so much from where it stands. */
  step(ms: number): void {
    this.#offsetMs += ms
    this.#write(offsetText(this.#offsetMs))
  }

  /** Lets the clock run at another rate from now on. */
  run(rate: number): void {
    this.#write(`${offsetText(this.#offsetMs)} x${rate}`)
  }

  /** Whole at every moment: a process reads it at each look at its clock. */
  #write(text: string): void {
    fs.writeFileSync(`${this.#file}.new`, text)
    fs.renameSync(`${this.#file}.new`, this.#file)
  }
}

function offsetText(ms: number): string {
  return `${ms < 0 ? '-' : '+'}${Math.abs(ms) / 1000}`
}
