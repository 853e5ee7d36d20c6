/** `tenure ledger`: a ledger that proves itself, and questions about the past. */
import path from 'node:path'
import { invalid } from '../../core/errors.ts'
import type { LeaseEvent } from '../../core/event.ts'
import type { LeaseId, LeaseInfo } from '../../core/lease.ts'
import { RETENTION_DAYS_MAX } from '../../core/limits.ts'
import { covers, type Resource } from '../../core/resource.ts'
import { readKeyFile, readText } from '../../delegation/key-file.ts'
import { foldLedger } from '../../ledger/fold.ts'
import type { KeptLeases } from '../../ledger/held-until.ts'
import { type Holding, holdingsIn } from '../../ledger/holdings.ts'
import { replayLedger } from '../../ledger/replay-ledger.ts'
import { LedgerChain } from '../../ledger/sealed-ledger.ts'
import { importLedger } from '../../open.ts'
import { LeaseReducer } from '../../registrar/lease-reducer.ts'
import { ledgerRecord } from '../../registrar/payloads.ts'
import type { Questions } from '../../service/lease-questions.ts'
import {
  directoryOption,
  durationOption,
  flag,
  integerOption,
  readWord,
  textOption,
} from '../arguments.ts'
import { type CliCall, type CliCommand, defineCommand } from '../command.ts'
import { instantOption } from '../instant.ts'
import { leaseTable, sharingWords } from '../lease-text.ts'
import { LedgerSealer, sealRepeatedly } from '../ledger-sealer.ts'
import { eventsAfter, ledgerDirectoryOf, storeFilesOf } from '../ledger-source.ts'
import { keysOfOne, verdictText, verifyDirectory } from '../ledger-verdict.ts'
import { clockTime, formatTable, type Paint, plural, visible } from '../output.ts'
import { readResourceArgument } from '../resource-argument.ts'
import { sealedEvents } from '../sealed-directory.ts'
import { KEYS_OPTION, keyFileOf, noteLedger } from '../secret-files.ts'
import { given, withQuestions } from '../store-access.ts'
type LedgerCall = CliCall<LedgerTable>

const ACTIONS = {
  seal,
  verify,
  replay,
  export: exportLines,
  import: importLines,
  digest,
}
const ACTION_NAMES = Object.keys(ACTIONS) as (keyof typeof ACTIONS)[]

const options = {
  ledger: directoryOption(
    'ledger',
    'where the sealed ledger is (default: STORE.ledger beside the file); of replay: ask it instead of the store',
  ),
  keys: KEYS_OPTION,
  key: textOption(
    'ID',
    'of verify: whose ledger it is, by any of its keys, if the file has several registrars',
  ),
  copy: textOption('FILE', 'a second place for checkpoints: seal writes it, verify compares it'),
  at: instantOption(
    'at',
    'of replay: 14:03:07, 2026-03-01T14:03:07Z, milliseconds, or 1h (ago); local without a zone',
  ),
  since: instantOption('since', 'of replay: what was held from then on, written like at'),
  until: instantOption('until', 'of replay with since: up to then (default: now)'),
  holder: textOption('NAME', 'of replay: only what this holder held'),
  every: durationOption(
    { field: 'every', minMs: 100, maxMs: 86_400_000 },
    'of seal: again and again, until it is stopped',
  ),
  retention: integerOption(
    { field: 'retention', min: 0, max: RETENTION_DAYS_MAX },
    'of seal and verify: the least history_retention_days since the last seal, if it was less than now',
  ),
  continue: flag('of import: go on with an import of the same file that was cut short'),
}

type LedgerTable = typeof options

export const ledger: CliCommand = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'seal, verify, replay, export, import or digest' },
    {
      name: 'WHAT',
      help: 'of replay: the only RESOURCE; of import: the FILE that export has written',
      optional: true,
    },
  ],
  options,
  notes: [
    'seal appends what is new in the store to the sealed ledger, each line chained to the one before it in its realm, and signs a checkpoint over all realms. First it looks, as verify does, whether what is there is what was sealed and what the store has.',
    'verify finds every line that was changed, removed, moved, added or cut off since, names the first, compares the events of the store with what was sealed, with each other, and with its live leases, and exits with 1 if anything differs.',
    'import rebuilds an empty store, of whatever kind, from what export has written. digest is a number over all leases that the ledger tells of: it is the same for a store and for one that was rebuilt from it.',
  ],
  examples: [
    'tenure ledger seal --copy /mnt/other/checkpoints.ndjson',
    'tenure ledger verify',
    'tenure ledger replay --at 14:03:07',
    'tenure ledger replay --holder agent-7 --since 13:00 --until 14:00',
    'tenure ledger export > ledger.ndjson',
    'tenure ledger import ledger.ndjson --store postgres://host/leases',
    'tenure ledger digest',
  ],
  run: async (call) => {
    const [word, resource] = call.positionals
    const action = readWord('ACTION', ACTION_NAMES, word)
    if (resource !== undefined && action !== 'replay' && action !== 'import') {
      throw invalid(`ledger ${action}`, 'must be followed by nothing', resource)
    }
    refuseOthersOptions(action, call.options)
    return ACTIONS[action](call)
  },
})

/** The actions that an option is for. `holder` is one that every command takes. */
const ACTIONS_OF: Readonly<Record<Exclude<keyof LedgerTable, 'holder'>, readonly string[]>> = {
  ledger: ['seal', 'verify', 'replay'],
  keys: ['seal', 'verify'],
  key: ['verify'],
  copy: ['seal', 'verify'],
  at: ['replay'],
  since: ['replay'],
  until: ['replay'],
  every: ['seal'],
  retention: ['seal', 'verify'],
  continue: ['import'],
}

function refuseOthersOptions(word: string, options: LedgerCall['options']): void {
  const given = new Map<string, unknown>(Object.entries(options))
  for (const [name, actions] of Object.entries(ACTIONS_OF)) {
    const value = given.get(name)
    if (value === undefined || actions.includes(word)) continue
    throw invalid(name, `must not be given to ledger ${word}, but to ${actions.join(', ')}`, value)
  }
}

async function seal(call: LedgerCall): Promise<number> {
  const { options, identity, cwd } = call
  const directory = ledgerDirectoryOf(options.ledger, identity.url, cwd)
  const { every } = options
  return withQuestions(identity, async (questions) => {
    const sealer = new LedgerSealer(questions, directory)
    const once = (): Promise<void> => sealOnce(call, sealer)
    const remark = (text: string): void => call.printer.remark(text)
    await (every === undefined ? once() : sealRepeatedly(once, { everyMs: every, remark }))
    return 0
  })
}

async function sealOnce(call: LedgerCall, sealer: LedgerSealer): Promise<void> {
  const { options, identity, printer, cwd } = call
  const keyFile = keyFileOf(options.keys, cwd)
  const checkpoint = await sealer.seal({
    ring: () => readKeyFile(keyFile),
    note: async (directory) => {
      if (await noteLedger(keyFile, directory)) return
      printer.remark(`${keyFile} cannot be written: name ${directory} to keys rotate --ledger`)
    },
    nowMs: Date.now(),
    copy: options.copy === undefined ? undefined : path.resolve(cwd, options.copy),
    others: [keyFile, ...storeFilesOf(identity.url)],
    retentionDays: options.retention,
  })
  const { sequence, events, realms } = checkpoint
  const over = `${plural(events, 'event')} of ${plural(realms, 'realm')}`
  const effect = `checkpoint ${sequence} over ${over}`
  printer.effect(effect, checkpoint, () => effect)
}

async function verify({ options, identity, printer, cwd }: LedgerCall): Promise<number> {
  const directory = ledgerDirectoryOf(options.ledger, identity.url, cwd)
  const keys = keysOfOne(readKeyFile(keyFileOf(options.keys, cwd)), options.key)
  const copy = options.copy === undefined ? undefined : path.resolve(cwd, options.copy)
  const verdict = await verifyDirectory({
    ...{ directory, keys, copy, identity, retentionDays: options.retention },
  })
  return printer.verdict(verdict.ok, verdict, () => visible(verdictText(verdict)))
}

async function exportLines({ identity, printer }: LedgerCall): Promise<number> {
  const chain = new LedgerChain()
  await withQuestions(identity, async (questions) => {
    for await (const entry of eventsAfter(questions, null)) printer.line(chain.append(entry))
  })
  return 0
}

async function importLines({
  identity,
  options,
  positionals,
  printer,
  cwd,
}: LedgerCall): Promise<number> {
  const [, file] = positionals
  if (file === undefined) throw invalid('ledger import', 'must be followed by FILE', undefined)
  const { url, namespace } = identity
  const where = given({ namespace: namespace ?? undefined, resume: options.continue })
  const imported = await importLedger(url, readText(path.resolve(cwd, file)), where)
  const effect = `${plural(imported.events, 'event')} imported, digest ${imported.digest}`
  printer.effect(effect, imported, () => effect)
  return 0
}

async function digest({ identity, printer }: LedgerCall): Promise<number> {
  const reducer = new LeaseReducer()
  let events = 0
  await withQuestions(identity, async (questions) => {
    for await (const { event } of eventsAfter(questions, null)) {
      reducer.apply(ledgerRecord(event))
      events += 1
    }
  })
  const answer = { events, leases: reducer.state.len(), digest: reducer.state.digest() }
  printer.answer(answer, () => `${answer.digest} (${plural(events, 'event')})`)
  return 0
}

/** Who held what at an instant, or what a holder held over a stretch of time. */
async function replay(call: LedgerCall): Promise<number> {
  const { options, positionals, printer, cwd } = call
  const { at: atMs, since: sinceMs, until: untilMs, holder } = options
  const [, text] = positionals
  const resource = text === undefined ? undefined : readResourceArgument(text, cwd)
  if (atMs === undefined && sinceMs === undefined) {
    throw invalid('at', 'must be given, or since', undefined)
  }
  if (atMs !== undefined && (sinceMs !== undefined || untilMs !== undefined)) {
    throw invalid('at', 'must not be given beside since or until', atMs)
  }
  const nowMs = Date.now()
  const { events, kept } = await pastOf(call, Math.max(nowMs, atMs ?? 0))
  if (atMs !== undefined) {
    const leases = replayLedger(events, { atMs, kept }).filter((lease) => {
      return isAsked(lease, { holder, resource })
    })
    printer.answer({ atMs, leases }, () => {
      if (leases.length === 0) return `no leases at ${new Date(atMs).toISOString()}`
      return leaseTable(leases, atMs, printer.paint)
    })
    return 0
  }
  const stretch = { fromMs: sinceMs ?? 0, toMs: untilMs ?? nowMs }
  if (stretch.fromMs > stretch.toMs) {
    throw invalid('until', 'must not be before since', new Date(stretch.toMs).toISOString())
  }
  const holdings = holdingsIn(events, { ...stretch, nowMs, kept, ...given({ holder, resource }) })
  printer.answer({ ...stretch, holdings }, () => {
    return holdings.length === 0 ? 'nothing was held' : holdingTable(holdings, printer.paint)
  })
  return 0
}

interface Past {
  readonly events: readonly LeaseEvent[]
  readonly kept: KeptLeases
}

/** Of the store, or of a sealed ledger, which also knows what the store has pruned. How it stands now is not asked then. */
async function pastOf({ options, identity, cwd }: LedgerCall, untilMs: number): Promise<Past> {
  if (options.ledger !== undefined) {
    return { events: sealedEvents(path.resolve(cwd, options.ledger)), kept: new Map() }
  }
  return withQuestions(identity, async (questions) => {
    const events: LeaseEvent[] = []
    for await (const { event } of eventsAfter(questions, null)) events.push(event)
    return { events, kept: await keptLeases(questions, events, untilMs) }
  })
}

/** The store's word on those that the ledger leaves active past their end: renewals need not be recorded. */
async function keptLeases(
  questions: Pick<Questions, 'get'>,
  events: readonly LeaseEvent[],
  untilMs: number,
): Promise<KeptLeases> {
  const kept = new Map<LeaseId, LeaseInfo>()
  for (const entry of foldLedger(events).values()) {
    const isUnclear =
      entry.kind === 'lease' && entry.state === 'active' && entry.expiresAtMs <= untilMs
    const found = isUnclear ? await questions.get({ id: entry.id }) : null
    if (found !== null) kept.set(found.id, found)
  }
  return kept
}

interface Wanted {
  readonly holder: string | undefined
  readonly resource: Resource | undefined
}

function isAsked(lease: LeaseInfo, { holder, resource }: Wanted): boolean {
  const isLive = lease.state === 'active' || lease.state === 'pending'
  if (!isLive || (holder !== undefined && lease.holder !== holder)) return false
  return resource === undefined || covers(lease, { resource, extent: 'exact' })
}

const COLUMNS = ['HOLDER', 'RESOURCE', 'MODE', 'FROM', 'UNTIL', 'END', 'FENCE', 'ID']

function holdingTable(holdings: readonly Holding[], paint: Paint): string {
  const rows = holdings.map((holding) => [
    holding.holder,
    holding.resource,
    sharingWords({ ...holding, slots: null }),
    clockTime(holding.fromMs),
    holding.toMs === null ? 'now' : clockTime(holding.toMs),
    holding.end === 'active' ? 'held' : (holding.releaseReason ?? holding.end),
    String(holding.fence),
    holding.leaseId,
  ])
  return formatTable(COLUMNS, rows, paint)
}
