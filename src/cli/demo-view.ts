/** What a person sees of the demo: a picture that is redrawn in place on a terminal, plain lines anywhere else. */
import path from 'node:path'
import type { LeaseInfo } from '../core/lease.ts'
import { RepeatedFault } from '../runtime/diagnostics.ts'
import { systemRuntime } from '../runtime/system-runtime.ts'
import type { LeaseApi } from '../service/lease-api.ts'
import { formatSpan } from './duration.ts'
import { cut, formatTable, type Cell, type Paint } from './output.ts'
import type { Cast, Condition } from '../demo/cast.ts'
import { FILE_NAMES } from '../demo/play.ts'
import type { AgentReport } from '../demo/report.ts'

export interface DemoView {
  /** Something happened to an agent from outside. */
  announce(text: string): void
  /** Idempotent. */
  close(): Promise<void>
}

export interface ViewOptions {
  readonly api: LeaseApi
  readonly cast: Cast
  readonly paint: Paint
  readonly write: (text: string) => void
  readonly columns: number
}

const REDRAW_MS = 120
const NEWS_MAX = 6

/** Words for what is worth a line; null for what would only be noise. */
export function newsOf(
  { kind, agent, file, fence, value }: AgentReport,
  waitedMs: number,
): string | null {
  switch (kind) {
    case 'holds':
      return `${agent} holds ${file} after ${formatSpan(waitedMs)}, fence ${fence}`
    case 'refused':
      return `${agent}'s late write to ${file} is refused: fence ${fence} is below ${value}`
    case 'lost':
      return `${agent} knows that it lost ${file}`
    case 'asks':
    case 'renewed':
    case 'about_to_write':
    case 'wrote':
    case 'released':
      return null
  }
}

/** Tells how long each agent has waited since it last asked. */
class Waits {
  readonly #askedAtUs = new Map<string, number>()

  hear({ kind, agent, atUs }: AgentReport): number {
    if (kind === 'asks') this.#askedAtUs.set(agent, atUs)
    return (atUs - (this.#askedAtUs.get(agent) ?? atUs)) / 1000
  }
}

class Clock {
  readonly #startMs = performance.now()

  stamp(): string {
    return `${((performance.now() - this.#startMs) / 1000).toFixed(1)}s`.padStart(6)
  }
}

export class PlainView implements DemoView {
  readonly #options: ViewOptions
  readonly #clock = new Clock()
  #closed = false

  constructor(options: ViewOptions) {
    this.#options = options
    const waits = new Waits()
    options.cast.onReport((report) => {
      const news = newsOf(report, waits.hear(report))
      if (news !== null) this.announce(news)
    })
  }

  announce(text: string): void {
    this.#options.write(`${this.#clock.stamp()}  ${text}\n`)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#options.write('\n')
  }
}

export class LiveView implements DemoView {
  readonly #options: ViewOptions
  readonly #clock = new Clock()
  readonly #news: string[] = []
  readonly #fault = new RepeatedFault('cli/demo/view', systemRuntime)
  #drawnLines = 0
  #timer: NodeJS.Timeout | null
  #drawing: Promise<void> | null = null

  constructor(options: ViewOptions) {
    this.#options = options
    options.cast.onReport((report) => {
      const news = report.kind === 'holds' ? null : newsOf(report, 0)
      if (news !== null) this.announce(news)
    })
    options.write(HIDE_CURSOR)
    this.#timer = setInterval(() => {
      this.#drawing ??= this.#draw().finally(() => {
        this.#drawing = null
      })
    }, REDRAW_MS)
  }

  announce(text: string): void {
    this.#news.push(`${this.#clock.stamp()}  ${text}`)
    if (this.#news.length > NEWS_MAX) this.#news.shift()
  }

  async close(): Promise<void> {
    if (this.#timer === null) return
    clearInterval(this.#timer)
    this.#timer = null
    await this.#drawing
    await this.#draw()
    this.#options.write(`${SHOW_CURSOR}\n`)
  }

  async #draw(): Promise<void> {
    const { cast, paint, write, columns } = this.#options
    const leases = await this.#leases()
    if (leases === null) return
    const lines = [
      `${paint('tenure demo', 'bold')}  ${this.#clock.stamp().trim()}`,
      '',
      ...fileTable(leases, paint).split('\n'),
      '',
      cast.conditions.map(({ name, condition }) => agentWord(name, condition, paint)).join('  '),
      '',
      ...this.#news.map((line) => cut(line, columns - 1)),
    ]
    const up = this.#drawnLines === 0 ? '' : `\u001b[${this.#drawnLines}A`
    write(`${up}${lines.map((line) => `${CLEAR_LINE}${line}\n`).join('')}${CLEAR_BELOW}`)
    this.#drawnLines = lines.length
  }

  /** Null when the store cannot be asked: the picture stays as it is until the next one. */
  async #leases(): Promise<readonly LeaseInfo[] | null> {
    try {
      const { leases } = await this.#options.api.list({})
      this.#fault.succeeded()
      return leases
    } catch (error) {
      this.#fault.failed(error)
      return null
    }
  }
}

const HIDE_CURSOR = '\u001b[?25l'
export const SHOW_CURSOR = '\u001b[?25h'
const CLEAR_LINE = '\r\u001b[2K'
const CLEAR_BELOW = '\u001b[0J'

const COLUMNS = ['FILE', 'HOLDER', 'FENCE', 'LEFT', 'WAITING'].map((title) => ({ title }))

function fileTable(leases: readonly LeaseInfo[], paint: Paint): string {
  const rows = FILE_NAMES.map((name): readonly Cell[] => {
    const here = leases.filter(({ resource }) => path.basename(resource) === name)
    const holder = here.find(({ state }) => state === 'active')
    const queue = here
      .filter(({ state }) => state === 'pending')
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs)
      .map((ticket) => ticket.holder)
    return [
      { text: name, colour: 'bold' },
      { text: (holder?.holder ?? '-').padEnd(6), colour: holder === undefined ? 'dim' : 'green' },
      { text: String(holder?.fence ?? '-').padEnd(16) },
      { text: (holder === undefined ? '-' : formatSpan(holder.remainingMs)).padEnd(6) },
      { text: queue.join(', '), colour: 'yellow' },
    ]
  })
  return formatTable(COLUMNS, rows, paint)
}

function agentWord(name: string, condition: Condition, paint: Paint): string {
  if (condition === 'running') return name
  return paint(`${name} (${condition})`, condition === 'ended' ? 'dim' : 'red')
}
