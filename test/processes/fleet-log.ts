/**
 * What pollers write down themselves: each poll with its begin and end, on the monotonic clock that all processes of
 * a host share. Each line is written before the poller goes on, so that a kill loses none.
 */
import fs from 'node:fs'

export type FleetLine =
  /** `untilUs`: the end of the poller's own view of its lease. */
  | {
      readonly kind: 'begin'
      readonly atUs: number
      readonly session: string
      readonly fence: number
      readonly untilUs: number
    }
  | { readonly kind: 'renewed'; readonly session: string; readonly untilUs: number }
  | {
      readonly kind: 'end'
      readonly atUs: number
      readonly session: string
      readonly fence: number
      /** What became of a write that carried the fence; null if none was tried. */
      readonly isTaken: boolean | null
    }
  /** The poller has stopped and the session is about to be given away. */
  | { readonly kind: 'stopped'; readonly atUs: number; readonly session: string }
  | { readonly kind: 'event'; readonly atUs: number; readonly name: string; readonly text: string }

export class FleetLog {
  readonly #file: number

  constructor(path: string) {
    this.#file = fs.openSync(path, 'a')
  }

  write(line: FleetLine): void {
    fs.writeSync(this.#file, `${JSON.stringify(line)}\n`)
  }
}

/** A killed process may have left half a line. */
export function readFleetLog(path: string): readonly FleetLine[] {
  const text = fs.existsSync(path) ? fs.readFileSync(path, 'utf8') : ''
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
  return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as FleetLine)
}
