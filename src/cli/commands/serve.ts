/** `tenure serve`: puts the store behind HTTP until it is told to stop. */
import path from 'node:path'
import { createSecureContext } from 'node:tls'
import { invalid, isLeaseError, messageOf } from '../../core/errors.ts'
import { readKeyFile } from '../../delegation/key-file.ts'
import { LEASE_TTL_MS_DEFAULT } from '../../fleet/fleet-options.ts'
import { readOverview } from '../../fleet/fleet-overview.ts'
import { openApi } from '../../open.ts'
import { onFault } from '../../runtime/diagnostics.ts'
import { fs, ifThere } from '../../runtime/file-system.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import type { AccessEntry, LedgerStanding } from '../../server/application.ts'
import type { ServerOptions, TenureServer } from '../../server/start-server.ts'
import { directoryOption, flag, textOption, wordOption } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { faultLine } from '../report-error.ts'
import { ledgerDirectoryOf } from '../ledger-source.ts'
import { loadServer } from '../optional-packages.ts'
import { visible } from '../output.ts'
import { listenForInterruption } from '../signals.ts'
import { given, storeOptionsOf, useAndClose } from '../store-access.ts'
import { KEYS_OPTION, keyFileOf, servedTokenFile, TOKENS_OPTION } from '../secret-files.ts'
import { checkpointsFile, readCheckpoints } from '../../delegation/ledger-files.ts'
import { keysOfOne, verdictText, verifyDirectory, type VerifyDirectory } from '../ledger-verdict.ts'

const LOG_FORMATS = ['json', 'text'] as const
type LogFormat = (typeof LOG_FORMATS)[number]

const options = {
  listen: textOption('HOST:PORT', 'where; port 0 picks a free one (default: 127.0.0.1:7420)'),
  tokens: TOKENS_OPTION,
  'tls-cert': textOption('FILE', 'the certificate and its chain, PEM'),
  'tls-key': textOption('FILE', 'its key, PEM'),
  'behind-proxy': flag('a proxy in front ends TLS'),
  operator: flag('without tokens: everybody on this host may revoke and configure, too'),
  keys: KEYS_OPTION,
  name: textOption('NAME', 'its name: a signed grant with this audience is a credential'),
  repo: textOption(
    'DIRS',
    'repositories, with commas between them, whose files Git LFS locks at /lfs/NAMESPACE/NAME; NAME is that of the directory',
  ),
  ledger: directoryOption('ledger', 'the sealed ledger that the dashboard shows'),
  log: wordOption('log', LOG_FORMATS, {
    placeholder: 'FORMAT',
    help: 'text or json: one line per request on stderr (default: text)',
  }),
}

type ServeTable = typeof options

export const serve: CliCommand = defineCommand({
  positionals: [],
  options,
  notes: [
    'Without tokens it listens on loopback only, and every program of this host may act as any holder. Any other address needs tokens (tenure tokens create), and TLS or a proxy that ends it.',
    'The first line on stdout is its URL. At SIGTERM it takes no new requests, lets those under way end, and touches no lease.',
  ],
  examples: [
    'tenure serve',
    'tenure serve --store postgres://db/leases --listen 0.0.0.0:80 --tokens t.json --behind-proxy',
  ],
  run,
})

async function run(call: CliCall<ServeTable>): Promise<number> {
  const { identity, options, printer, cwd } = call
  const { startServer } = await loadServer('tenure serve')
  const tokens = servedTokenFile(options.tokens, cwd)
  if (tokens !== null && options.operator === true) {
    throw invalid('operator', 'must be left out where tokens say who may', tokens)
  }
  const keyFile = keyFileOf(options.keys, cwd)
  const log = new ServerLog(options.log ?? 'text')
  const stopFaults = onFault((fault) => log.say({ fault: faultLine(fault) }, faultLine(fault)))
  const interruption = listenForInterruption()
  const server: TenureServer = await startServer({
    ...addressOf(options.listen),
    ...given({ tokens: tokens ?? undefined, tls: tlsOf(options, cwd), name: options.name }),
    open: (asked) => {
      const namespace = asked === 'default' ? (identity.namespace ?? asked) : asked
      return openApi(identity.url, storeOptionsOf({ ...identity, namespace }))
    },
    behindProxy: options['behind-proxy'] === true,
    role: options.operator === true ? 'operator' : 'holder',
    keys: () => readKeyFile(keyFile),
    repositories: repositoriesOf(options.repo, cwd),
    ...given({ ledger: ledgerOf(call), pollFleet: pollFleetOf(identity.url) }),
    onRequest: (entry) => log.say(entry, accessLine(entry)),
  })
  printer.answer({ url: server.url }, () => server.url)
  printer.remark(whoMay(tokens, options.operator === true))
  await aborted(interruption.signal)
  await server.close()
  stopFaults()
  interruption.stop()
  return 0
}

function ledgerOf({ identity, options, cwd }: CliCall<ServeTable>): ServerOptions['ledger'] {
  if (options.ledger === undefined) return undefined
  const directory = ledgerDirectoryOf(options.ledger, identity.url, cwd)
  const keys = keysOfOne(readKeyFile(keyFileOf(options.keys, cwd)), undefined)
  return servedLedger({ directory, keys, copy: undefined, identity, retentionDays: undefined })
}

/** Each look is a connection of its own, as for a command: the page takes one every few seconds while a person looks. */
function pollFleetOf(url: string): ServerOptions['pollFleet'] {
  if (!/^rediss?:/.test(url)) return undefined
  return async (prefix) => {
    const { openLayout } = await import('../../open-fleet.ts')
    const { layout } = await openLayout(url, { layout: 'poll', prefix, ready: false })
    return useAndClose(layout, async () => {
      await layout.open(null)
      return readOverview(layout, { nowMs: Date.now(), leaseTtlMs: LEASE_TTL_MS_DEFAULT })
    })
  }
}

function whoMay(tokens: string | null, isOperator: boolean): string {
  if (tokens !== null) return `tenure: whoever has a token of ${tokens} may use it`
  const role = isOperator ? 'operator' : 'holder'
  return `tenure: every program of this host may use it, in the role ${role}, without a token`
}

function repositoriesOf(text: string | undefined, cwd: string): Readonly<Record<string, string>> {
  const roots = (text === undefined ? [] : text.split(',')).map((directory) => {
    const root = systemRuntime.canonicalPath(path.resolve(cwd, directory))
    const isThere = directory !== '' && ifThere(() => fs.statSync(root))?.isDirectory() === true
    if (!isThere) throw invalid('repo', 'must be directories', directory)
    return [path.basename(root), root] as const
  })
  const names = new Set(roots.map(([name]) => name))
  if (names.size < roots.length) throw invalid('repo', 'must have different names', text)
  return Object.fromEntries(roots)
}

function addressOf(text: string | undefined): { readonly host?: string; readonly port?: number } {
  if (text === undefined) return {}
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d{1,5})$/.exec(text) ?? []
  const host = bracketed ?? plain
  if (port === undefined || Number(port) > 65_535 || host === undefined) {
    throw invalid('listen', 'must be HOST:PORT', text)
  }
  return { ...(host === '' ? {} : { host }), port: Number(port) }
}

type Files = Pick<CliCall<ServeTable>['options'], 'tls-cert' | 'tls-key'>

function tlsOf(
  { 'tls-cert': cert, 'tls-key': key }: Files,
  cwd: string,
): { readonly cert: string; readonly key: string } | undefined {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined) throw invalid('tls-cert', 'must be given with --tls-key', cert)
  if (key === undefined) throw invalid('tls-key', 'must be given with --tls-cert', key)
  const tls = {
    cert: pemOf('tls-cert', path.resolve(cwd, cert)),
    key: pemOf('tls-key', path.resolve(cwd, key)),
  }
  try {
    createSecureContext(tls)
    return tls
  } catch (cause) {
    throw invalid(
      'tls-cert',
      `must be a certificate in PEM, and --tls-key its key (${messageOf(cause)})`,
      cert,
    )
  }
}

function pemOf(option: keyof Files, file: string): string {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch (cause) {
    throw invalid(option, `must be a file that can be read (${messageOf(cause)})`, file)
  }
}

function accessLine({ atMs, method, path: place, status, tookMs, token }: AccessEntry): string {
  const time = new Date(atMs).toISOString()
  return visible(`${time} ${method} ${place} ${status} ${tookMs.toFixed(1)}ms ${token ?? '-'}`)
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** The sealed ledger is verified when somebody looks, and not again within this. */
const AGAIN_MS = 60_000

function servedLedger(ledger: VerifyDirectory): () => Promise<LedgerStanding> {
  let known: { readonly atMs: number; readonly standing: Promise<LedgerStanding> } | null = null
  return () => {
    const atMs = Date.now()
    if (known === null || atMs - known.atMs > AGAIN_MS)
      known = { atMs, standing: look(ledger, atMs) }
    return known.standing
  }
}

async function look(ledger: VerifyDirectory, verifiedAtMs: number): Promise<LedgerStanding> {
  try {
    const verdict = await verifyDirectory(ledger)
    const last = readCheckpoints(checkpointsFile(ledger.directory)).at(-1)
    const checkpoint =
      last === undefined ? null : { sequence: last.sequence, atMs: last.atMs, events: last.events }
    const [problem = ''] = verdictText(verdict).split('\n')
    return { checkpoint, verifiedAtMs, problem: verdict.ok ? null : problem }
  } catch (error) {
    // No fault: that it cannot be verified is the answer.
    if (isLeaseError(error)) return { checkpoint: null, verifiedAtMs, problem: error.message }
    throw error
  }
}

const WAITING_BYTES_MAX = 1_048_576

/**
 * The log of a server on stderr. A reader that stops reading (a pager, a full pipe) must not stop the server, whose clients
 * would lose their leases: so lines are not waited for, unlike those of `terminal.ts`. What is beyond
 * `WAITING_BYTES_MAX` is left out, and the next line says how many lines.
 */
class ServerLog {
  readonly #format: LogFormat
  #leftOut = 0

  constructor(format: LogFormat) {
    this.#format = format
    // No fault: there is nowhere left to tell that the log cannot be written to.
    process.stderr.on('error', () => undefined)
  }

  /** Writes a line: the value as JSON, or the text. */
  say(value: object, text: string): void {
    if (process.stderr.writableLength > WAITING_BYTES_MAX) {
      this.#leftOut += 1
      return
    }
    const linesLeftOut = this.#leftOut
    this.#leftOut = 0
    if (linesLeftOut > 0) {
      const why = `${linesLeftOut} lines of this log were left out, because nothing read it`
      this.#write({ linesLeftOut }, `tenure: ${why}`)
    }
    this.#write(value, text)
  }

  #write(value: object, text: string): void {
    process.stderr.write(`${this.#format === 'json' ? visible(JSON.stringify(value)) : text}\n`)
  }
}
