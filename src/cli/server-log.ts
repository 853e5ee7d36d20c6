/**
 * The log of a server on stderr. A reader that stops reading (a pager, a full pipe) must not stop the server, whose clients
 * would lose their leases: so lines are not waited for, unlike those of `terminal.ts`. So much waits for a slow reader;
 * beyond it lines are left out, and the next line says how many.
 */
const WAITING_BYTES_MAX = 1_048_576

export class ServerLog {
  readonly #format: (linesLeftOut: number) => string
  #leftOut = 0

  /** `format` gives the line that says how many were left out. */
  constructor(format: (linesLeftOut: number) => string) {
    this.#format = format
    // No fault: there is nowhere left to tell that the log cannot be written to.
    process.stderr.on('error', () => undefined)
  }

  line(text: string): void {
    if (process.stderr.writableLength > WAITING_BYTES_MAX) {
      this.#leftOut += 1
      return
    }
    if (this.#leftOut > 0) process.stderr.write(`${this.#format(this.#leftOut)}\n`)
    this.#leftOut = 0
    process.stderr.write(`${text}\n`)
  }
}
