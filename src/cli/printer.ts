/** What commands write: one JSON value, or text for people, on stdout; remarks for people on stderr. */
import { painter, type Paint } from './output.ts'
import { isTerminal, STDERR, STDOUT, write } from './terminal.ts'

export class Printer {
  readonly json: boolean
  readonly paint: Paint

  constructor(options: { readonly json: boolean }) {
    this.json = options.json
    this.paint = painter(!options.json && isTerminal(STDOUT), process.env)
  }

  /** The answer of a command. Text is only made when somebody reads it. */
  answer(value: unknown, text: () => string): void {
    this.line(this.json ? JSON.stringify(value) : text())
  }

  line(text: string): void {
    write(STDOUT, `${text}\n`)
  }

  /** For people only, beside the answer. */
  remark(text: string): void {
    if (!this.json) write(STDERR, `${text}\n`)
  }
}
