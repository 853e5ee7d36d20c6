/** `tenure demo`: five agents, a handful of files, two accidents, and a look at whether the promises were kept. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { LeaseError, messageOf } from '../../core/errors.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import { Cast, type Condition } from '../../demo/cast.ts'
import { AGENT_NAMES, DEMO_TTL_MS, FILE_NAMES, play } from '../../demo/play.ts'
import type { AgentReport } from '../../demo/report.ts'
import { brokenPromises, checkPromises, type PromiseCheck } from '../../demo/promise-check.ts'
import { openApi } from '../../open.ts'
import { RepeatedFault } from '../../runtime/diagnostics.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { ServerOptions, TenureServer } from '../../server/start-server.ts'
import type { LeaseApi } from '../../service/lease-api.ts'
import { durationOption, flag } from '../arguments.ts'
import { type CliCall, type CliCommand, defineCommand } from '../command.ts'
import { formatSpan } from '../duration.ts'
import { loadServer } from '../optional-packages.ts'
import { type Cell, cut, formatTable, type Paint, plural } from '../output.ts'
import { listenForInterruption, signalExitCode } from '../signals.ts'

const DURATION_MS_DEFAULT = 15_000
/** Long enough to find the page and look around. */
const SHOWN_MS_DEFAULT = 120_000
/** A terminal that does not know its size, and one in which lines would wrap and spoil the picture. */
const COLUMNS_DEFAULT = 100
const COLUMNS_MIN = 80

const options = {
  duration: durationOption(
    { field: 'duration', minMs: 5_000, maxMs: 600_000 },
    'how long the agents work (default: 15s)',
  ),
  keep: flag('keep the scratch directory, to look at its files and its store'),
  dashboard: flag('show the agents in a browser: for 2m by default, and the page until Ctrl-C'),
}

type DemoTable = typeof options

export const demo: CliCommand = defineCommand({
  positionals: [],
  options,
  notes: [
    'Five agents, each a process of its own, share four files through leases of 2 s. One is killed while it holds a file; one is stopped until its lease has run out and then writes too late. The exit status is 1 if a promise was broken. It works in a scratch directory with a store of its own; --store is not touched.',
  ],
  examples: ['tenure demo', 'tenure demo --dashboard', 'tenure demo --duration 30s --keep'],
  run,
})

async function run(call: CliCall<DemoTable>): Promise<number> {
  const scratch = makeScratch()
  const cast = new Cast()
  const interruption = listenForInterruption()
  /** However this process ends, short of SIGKILL, nothing of the demo stays behind. */
  const cleanUp = (): void => {
    cast.abandon()
    // An agent that dies at this moment may still be creating a file.
    const removal = { recursive: true, force: true, maxRetries: 10, retryDelay: 20 }
    if (call.options.keep !== true) fs.rmSync(scratch, removal)
  }
  process.once('exit', cleanUp)
  interruption.onSignal((name) => {
    if (process.stdout.isTTY) process.stdout.write(`${SHOW_CURSOR}\n`)
    process.exit(signalExitCode(name))
  })
  try {
    const page = call.options.dashboard === true ? await openPage(call, scratch) : null
    const check = await perform(call, cast, scratch)
    const broken = brokenPromises(check)
    if (call.options.keep === true) call.printer.remark(`kept in ${scratch}`)
    const answer = { ...check, brokenPromises: broken }
    const status = call.printer.verdict(broken.length === 0, answer, () => summary(check, broken))
    call.printer.remark(page === null ? SEE_IT : `the page stays at ${page.url} until Ctrl-C`)
    // A signal ends the process, and with it the page.
    if (page !== null) await new Promise<never>(() => undefined)
    return status
  } finally {
    cleanUp()
    process.off('exit', cleanUp)
    interruption.stop()
  }
}

function makeScratch(): string {
  try {
    return fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-demo-')))
  } catch (cause) {
    const message = `TMPDIR must be a directory that can be written to, got ${os.tmpdir()}: ${messageOf(cause)}`
    throw new LeaseError('INVALID_INPUT', message, { details: { field: 'TMPDIR' }, cause })
  }
}

const SEE_IT = 'to watch it in a browser: tenure demo --dashboard'

function storeIn(scratch: string): string {
  return `sqlite:${path.join(scratch, 'tenure.db')}`
}

/** A server before the demo's store, for its page. Every visitor may act: nothing of it is worth more than the demo. */
async function openPage({ printer }: CliCall<DemoTable>, scratch: string): Promise<TenureServer> {
  const { startServer } = await loadServer('tenure demo --dashboard')
  const open: ServerOptions['open'] = (namespace) => openApi(storeIn(scratch), { namespace })
  const server = await startServer({ open, port: 0, role: 'operator' })
  printer.remark(`the page: ${server.url}`)
  return server
}

async function perform(
  call: CliCall<DemoTable>,
  cast: Cast,
  scratch: string,
): Promise<PromiseCheck> {
  const storeUrl = storeIn(scratch)
  const directory = path.join(scratch, 'files')
  fs.mkdirSync(directory)
  for (const name of FILE_NAMES) fs.writeFileSync(path.join(directory, name), '')
  const api = await openApi(storeUrl, { holder: 'demo' })
  const view = makeView(call, { api, cast })
  const isAwaited = async (file: string): Promise<boolean> => {
    const { leases } = await api.list({ state: 'pending' })
    return leases.some(({ resource }) => path.basename(resource) === file)
  }
  try {
    const { duration, dashboard } = call.options
    const durationMs = duration ?? (dashboard === true ? SHOWN_MS_DEFAULT : DURATION_MS_DEFAULT)
    const announce = (text: string): void => view.announce(text)
    await play({ cast, storeUrl, directory, durationMs, isAwaited, announce })
    await view.close()
    return await checkPromises({ api, reports: cast.reports, directory, crashed: cast.crashed })
  } finally {
    await view.close()
    await api.close()
  }
}

function makeView(
  { printer }: CliCall<DemoTable>,
  subject: Pick<ViewOptions, 'api' | 'cast'>,
): DemoView {
  const { stdout } = process
  const write = (text: string): void => void stdout.write(text)
  const columns = stdout.columns || COLUMNS_DEFAULT
  const options = { ...subject, paint: printer.paint, write, columns }
  if (printer.json) return new PlainView({ ...options, write: () => undefined })
  const agents = AGENT_NAMES.join(', ')
  printer.line(
    `${agents} share ${FILE_NAMES.length} files with leases of ${formatSpan(DEMO_TTL_MS)}.\n`,
  )
  return stdout.isTTY && columns >= COLUMNS_MIN ? new LiveView(options) : new PlainView(options)
}

function summary(check: PromiseCheck, broken: readonly string[]): string {
  const folds = check.foldDifferences === 0 ? 'fold' : 'do NOT fold'
  return [
    `From the ledger, whose ${check.events} events ${folds} to the state of the store:`,
    `  ${plural(check.grants, 'grant')}`,
    `  ${plural(check.handovers, 'handover')} from the queue`,
    `  ${plural(check.expiries, 'expiry', 'expiries')}`,
    `  longest wait ${formatSpan(check.longestWaitMs)}`,
    `  ${plural(check.overlapsInLedger, 'overlap')}`,
    'From what the agents themselves reported and wrote:',
    `  ${plural(check.overlapsReported, 'overlap')}`,
    `  ${plural(check.staleWritersRefused, 'stale writer')} refused by its fence`,
    '',
    ...(broken.length === 0
      ? ['Every promise was kept.']
      : ['Broken promises:', ...broken.map((words) => `  ${words}`)]),
  ].join('\n')
}

/** What a person sees of the demo: a picture that is redrawn in place on a terminal, plain lines anywhere else. */
interface DemoView {
  /** Something happened to an agent from outside. */
  announce(text: string): void
  /** Idempotent. */
  close(): Promise<void>
}

interface ViewOptions {
  readonly api: LeaseApi
  readonly cast: Cast
  readonly paint: Paint
  readonly write: (text: string) => void
  readonly columns: number
}

const REDRAW_MS = 120
const NEWS_MAX = 6

/** Words for what is worth a line; null for what would only be noise. */
function newsOf({ kind, agent, file, fence, value }: AgentReport, waitedMs: number): string | null {
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

class PlainView implements DemoView {
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
const SHOW_CURSOR = '\u001b[?25h'
const CLEAR_LINE = '\r\u001b[2K'
const CLEAR_BELOW = '\u001b[0J'

const COLUMNS = ['FILE', 'HOLDER', 'FENCE', 'LEFT', 'WAITING']

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
      String(holder?.fence ?? '-').padEnd(16),
      (holder === undefined ? '-' : formatSpan(holder.remainingMs)).padEnd(6),
      { text: queue.join(', '), colour: 'yellow' },
    ]
  })
  return formatTable(COLUMNS, rows, paint)
}

function agentWord(name: string, condition: Condition, paint: Paint): string {
  if (condition === 'running') return name
  return paint(`${name} (${condition})`, condition === 'ended' ? 'dim' : 'red')
}
