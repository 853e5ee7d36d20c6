/** `tenure ledger`: a ledger that proves itself, and questions about the past. */
import path from 'node:path'
import { isStoreAway } from '../../client/insist.ts'
import { invalid, LeaseError } from '../../core/errors.ts'
import { compareLedgers } from '../../ledger/compare-ledger.ts'
import { LeaseReducer } from '../../ledger/lease-reducer.ts'
import { checkpointHash } from '../../ledger/ledger-checkpoint.ts'
import { ledgerRecord } from '../../ledger/payloads.ts'
import { entryOf, isRotationLine, LedgerChain } from '../../ledger/sealed-ledger.ts'
import { verifyLedger, type SealedLedger } from '../../ledger/verify-ledger.ts'
import { importLedger } from '../../open.ts'
import type { LedgerEntry } from '../../store-port/store.ts'
import { durationOption, flag, textOption, type Option } from '../arguments.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import { instantOption } from '../instant.ts'
import { readKeyFile, readText } from '../../delegation/key-file.ts'
import { keyFileOf } from '../key-file.ts'
import {
  eventsAfter,
  ledgerDirectoryOf,
  LedgerSealer,
  readCheckpoints,
  readSealedLedger,
} from '../ledger-files.ts'
import { tellPast } from '../ledger-past.ts'
import { plural } from '../output.ts'
import { readResource } from '../resource-argument.ts'
import { given, withQuestions } from '../store-access.ts'
import { KEYS_OPTION } from './keys.ts'

type LedgerTable = {
  readonly ledger: Option<string>
  readonly keys: Option<string>
  readonly copy: Option<string>
  readonly at: Option<number>
  readonly since: Option<number>
  readonly until: Option<number>
  readonly holder: Option<string>
  readonly every: Option<number>
  readonly continue: Option<true>
}
type LedgerCall = Call<LedgerTable>

const ACTIONS: Readonly<Record<string, (call: LedgerCall) => Promise<number>>> = {
  seal,
  verify,
  replay,
  export: exportLines,
  import: importLines,
  digest,
}

export const ledger: Command = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'seal, verify, replay, export, import or digest' },
    {
      name: 'WHAT',
      help: 'of replay: the only RESOURCE; of import: the FILE that export has written',
      optional: true,
    },
  ],
  options: {
    ledger: textOption('DIR', 'where the sealed ledger is (default: STORE.ledger beside the file)'),
    keys: KEYS_OPTION,
    copy: textOption('FILE', 'a second place for checkpoints: seal writes it, verify compares it'),
    at: instantOption('at', 'of replay: 14:03:07, 2026-03-01T14:03:07Z, milliseconds, or 1h (ago)'),
    since: instantOption('since', 'of replay: what was held from then on, written like at'),
    until: instantOption('until', 'of replay with since: up to then (default: now)'),
    holder: textOption('NAME', 'of replay: only what this holder held'),
    every: durationOption(
      { field: 'every', minMs: 100, maxMs: 86_400_000 },
      'of seal: again and again, until it is stopped',
    ),
    continue: flag('of import: go on with an import of the same file that was cut short'),
  },
  notes: [
    'seal appends what is new in the store to the sealed ledger, each line chained to the one before it in its realm, and signs a checkpoint over all realms.',
    'verify finds every line that was changed, removed, moved, added or cut off since, names the first, compares the store with what was sealed, and exits with 1 if anything differs.',
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
    const action = word === undefined ? undefined : ACTIONS[word]
    if (action === undefined || !Object.hasOwn(ACTIONS, word ?? '')) {
      throw invalid('ACTION', `must be one of ${Object.keys(ACTIONS).join(', ')}`, word)
    }
    if (resource !== undefined && word !== 'replay' && word !== 'import') {
      throw invalid(`ledger ${word}`, 'must be followed by nothing', resource)
    }
    return action(call)
  },
})

async function seal(call: LedgerCall): Promise<number> {
  const { options, identity, cwd } = call
  const directory = ledgerDirectoryOf(options.ledger, identity.url, cwd)
  const { every } = options
  return withQuestions(identity, async (questions) => {
    const sealer = new LedgerSealer(questions, directory)
    for (;;) {
      try {
        await sealOnce(call, sealer)
      } catch (error) {
        if (every === undefined || !isStoreAway(error)) throw error
        call.printer.remark(`not sealed this time: ${String(error)}`)
      }
      if (every === undefined) return 0
      await new Promise((resolve) => setTimeout(resolve, every))
    }
  })
}

async function sealOnce(
  { options, printer, cwd }: LedgerCall,
  sealer: LedgerSealer,
): Promise<void> {
  const copy = options.copy === undefined ? undefined : path.resolve(cwd, options.copy)
  const ring = readKeyFile(keyFileOf(options.keys, cwd))
  const checkpoint = await sealer.seal({ ring, nowMs: Date.now(), copy })
  printer.answer(checkpoint, () => {
    const { sequence, events, realms } = checkpoint
    const over = `${plural(events, 'event')} of ${plural(realms, 'realm')}`
    return `checkpoint ${sequence} over ${over}`
  })
}

async function verify(call: LedgerCall): Promise<number> {
  const { options, identity, printer, cwd } = call
  const directory = ledgerDirectoryOf(options.ledger, identity.url, cwd)
  const sealed = readSealedLedger(directory)
  if (sealed.checkpoints.length === 0) {
    throw new LeaseError('DECODE_ERROR', `ledger must have a checkpoint, got none in ${directory}`)
  }
  const ring = readKeyFile(keyFileOf(options.keys, cwd))
  const verdict = verifyLedger(sealed, ring.keys)
  const copied = copyProblem(call, sealed)
  const store = verdict.ok ? await compareStore(call, sealed) : null
  const ok = verdict.ok && copied === null && (store?.first ?? null) === null
  printer.answer({ ...verdict, ok, copy: copied, store }, () => {
    if (verdict.first !== null) {
      const { line, position, problem } = verdict.first
      return `line ${line} (position ${position ?? 'unknown'}) ${problem}`
    }
    if (copied !== null) return copied
    if (store !== null && store.first !== null) {
      return `the store differs from what was sealed: position ${store.first.position} was ${store.first.problem}`
    }
    const pruned = plural(store?.prunedLeases ?? 0, 'pruned lease')
    return `${plural(verdict.sealed, 'event')} are as they were sealed (${pruned})`
  })
  return ok ? 0 : 1
}

/** Whoever cut the ledger and its checkpoints short together is found by the copy. */
function copyProblem({ options, cwd }: LedgerCall, { checkpoints }: SealedLedger): string | null {
  if (options.copy === undefined) return null
  const known = new Set(checkpoints.map(checkpointHash))
  const odd = readCheckpoints(path.resolve(cwd, options.copy)).find((checkpoint) => {
    return !known.has(checkpointHash(checkpoint))
  })
  return odd === undefined ? null : `checkpoint ${odd.sequence} of the copy is not in the ledger`
}

function isEventLine(line: string): boolean {
  return !isRotationLine(line)
}

async function compareStore({ identity }: LedgerCall, { lines, checkpoints }: SealedLedger) {
  const count = checkpoints.at(-1)?.events ?? 0
  const sealed = lines.slice(0, count).filter(isEventLine).map(entryOf)
  const last = sealed.at(-1)?.position
  const kept: LedgerEntry[] = []
  await withQuestions(identity, async (questions) => {
    if (last === undefined) return
    for await (const entry of eventsAfter(questions, null)) {
      kept.push(entry)
      if (entry.position === last) break
    }
  })
  const isBeyond = kept.at(-1)?.position !== last
  return compareLedgers(sealed, isBeyond ? upTo(kept, sealed) : kept)
}

/** The store no longer has the last event that was sealed: what is newer than all that was sealed is not compared. */
function upTo(
  kept: readonly LedgerEntry[],
  sealed: readonly LedgerEntry[],
): readonly LedgerEntry[] {
  const known = new Set(sealed.map(({ position }) => position))
  const end = kept.findLastIndex(({ position }) => known.has(position))
  return kept.slice(0, end + 1)
}

async function replay({
  options,
  identity,
  positionals,
  printer,
  cwd,
}: LedgerCall): Promise<number> {
  const [, text] = positionals
  const { at, since, until, holder } = options
  await tellPast(identity, printer, {
    atMs: at,
    sinceMs: since,
    untilMs: until,
    holder,
    resource: text === undefined ? undefined : readResource(text, cwd),
  })
  return 0
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
  printer.answer(imported, () => {
    return `${plural(imported.events, 'event')} imported, digest ${imported.digest}`
  })
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
