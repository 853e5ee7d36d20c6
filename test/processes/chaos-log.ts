/**
 * What a worker of the chaos run writes down about itself, one JSON object a line. Times are microseconds of the
 * host's monotonic clock, which all processes of the host share, so lines of different workers can be compared.
 */
import fs from 'node:fs'

export type ChaosLine =
  | {
      readonly kind: 'start'
      readonly atUs: number
      readonly resource: string
      readonly leaseId: string
      readonly fence: number
      /** The end of the holder's own view, as it was known at this moment. */
      readonly untilUs: number
    }
  | {
      readonly kind: 'renewed'
      readonly atUs: number
      readonly leaseId: string
      readonly untilUs: number
    }
  | { readonly kind: 'end'; readonly atUs: number; readonly leaseId: string; readonly why: string }
  | {
      readonly kind: 'write'
      readonly atUs: number
      readonly leaseId: string
      readonly late: boolean
      readonly accepted: boolean
    }
  /** The store could not be used, or did not say what it did. */
  | { readonly kind: 'error'; readonly atUs: number; readonly code: string }

export function nowUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}

/** Lines are written at once and whole, so that a killed worker leaves what it had done so far. */
export class ChaosLog {
  readonly #file: number

  constructor(path: string) {
    this.#file = fs.openSync(path, 'a')
  }

  write(line: ChaosLine): void {
    fs.writeSync(this.#file, `${JSON.stringify(line)}\n`)
  }
}

export function readChaosLog(path: string): readonly ChaosLine[] {
  const text = fs.readFileSync(path, 'utf8')
  const whole = text.slice(0, text.lastIndexOf('\n') + 1)
  return whole
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ChaosLine)
}
