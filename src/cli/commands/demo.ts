/** `tenure demo`: five agents, a handful of files, two accidents, and a look at whether the promises were kept. */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { openApi } from '../../open.ts'
import { durationOption, flag, type Option } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { Cast } from '../../demo/cast.ts'
import { AGENT_NAMES, FILE_NAMES, play, DEMO_TTL_MS } from '../../demo/play.ts'
import { brokenPromises, checkPromises, type PromiseCheck } from '../../demo/verdict.ts'
import type { ServerOptions, TenureServer } from '../../server/start-server.ts'
import { LiveView, PlainView, SHOW_CURSOR, type DemoView, type ViewOptions } from '../demo-view.ts'
import { formatSpan } from '../duration.ts'
import { loadServer } from '../load-server.ts'
import { plural } from '../output.ts'
import { listenForInterruption, signalExitCode } from '../signals.ts'

const DURATION_MS_DEFAULT = 15_000
/** Long enough to find the page and look around. */
const SHOWN_MS_DEFAULT = 120_000
/** A terminal that does not know its size, and one in which lines would wrap and spoil the picture. */
const COLUMNS_DEFAULT = 100
const COLUMNS_MIN = 80

type DemoTable = {
  readonly duration: Option<number>
  readonly keep: Option<true>
  readonly dashboard: Option<true>
}

export const demo: CliCommand = defineCommand({
  positionals: [],
  options: {
    duration: durationOption(
      { field: 'duration', minMs: 5_000, maxMs: 600_000 },
      'how long the agents work (default: 15s)',
    ),
    keep: flag('keep the scratch directory, to look at its files and its store'),
    dashboard: flag('show the agents in a browser: for 2m by default, and the page until Ctrl-C'),
  },
  notes: [
    'Five agents, each a process of its own, share four files through leases of 2 s. One is killed while it holds a file; one is stopped until its lease has run out and then writes too late. The exit status is 1 if a promise was broken. It works in a scratch directory with a store of its own; --store is not touched.',
  ],
  examples: ['tenure demo', 'tenure demo --dashboard', 'tenure demo --duration 30s --keep'],
  run,
})

async function run(call: CliCall<DemoTable>): Promise<number> {
  const scratch = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'tenure-demo-')))
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
    const verdict = await perform(call, cast, scratch)
    const broken = brokenPromises(verdict)
    if (call.options.keep === true) call.printer.remark(`kept in ${scratch}`)
    const answer = { ...verdict, brokenPromises: broken }
    const status = call.printer.verdict(broken.length === 0, answer, () => summary(verdict, broken))
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

const SEE_IT = 'to watch it in a browser: tenure demo --dashboard'

function storeIn(scratch: string): string {
  return `sqlite:${path.join(scratch, 'tenure.db')}`
}

/** A server before the demo's store, for its page. Whoever looks may act: nothing of it is worth more than the demo. */
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

function summary(verdict: PromiseCheck, broken: readonly string[]): string {
  const folds = verdict.foldDifferences === 0 ? 'fold' : 'do NOT fold'
  return [
    `From the ledger, whose ${verdict.events} events ${folds} to the state of the store:`,
    `  ${plural(verdict.grants, 'grant')}`,
    `  ${plural(verdict.handovers, 'handover')} from the queue`,
    `  ${plural(verdict.expiries, 'expiry', 'expiries')}`,
    `  longest wait ${formatSpan(verdict.longestWaitMs)}`,
    `  ${plural(verdict.overlapsInLedger, 'overlap')}`,
    'From what the agents themselves reported and wrote:',
    `  ${plural(verdict.overlapsReported, 'overlap')}`,
    `  ${plural(verdict.staleWritersRefused, 'stale writer')} refused by its fence`,
    '',
    ...(broken.length === 0
      ? ['Every promise was kept.']
      : ['Broken promises:', ...broken.map((words) => `  ${words}`)]),
  ].join('\n')
}
