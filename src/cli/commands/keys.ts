/** `tenure keys`: the keys that sign grants and checkpoints. */
import path from 'node:path'
import { invalid } from '../../core/errors.ts'
import { generateSigningKey } from '../../ledger/ed25519.ts'
import {
  formatKeyRing,
  importKeys,
  isSigning,
  parseKeyRing,
  rotateKeys,
  withFirstKey,
  type KeyRing,
  type KeptKey,
} from '../../ledger/key-ring.ts'
import { durationOption, textOption, type Option } from '../arguments.ts'
import { defineCommand, type Call, type Command } from '../command.ts'
import {
  linkedFile,
  makeDirectoryFor,
  readKeyFile,
  readText,
  writeKeyFile,
} from '../../delegation/key-file.ts'
import { keyFileOf } from '../key-file.ts'
import { formatTable } from '../output.ts'
import { waitForTurn } from '../turn.ts'

const ACTIONS = ['generate', 'ls', 'rotate', 'export', 'import'] as const
type Action = (typeof ACTIONS)[number]
type Change = Exclude<Action, 'ls' | 'export'>
type KeysTable = { readonly keys: Option<string>; readonly overlap: Option<number> }

const DAY_MS = 86_400_000
const OVERLAP_MS_DEFAULT = 30 * DAY_MS

export const KEYS_OPTION: Option<string> = textOption(
  'FILE',
  'the file of keys (default: $TENURE_KEYS, else tenure.keys.json beside the default store)',
)

export const keys: Command = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'generate, ls, rotate, export, or import FILE' },
    { name: 'FILE', help: 'of import: what export has written elsewhere', optional: true },
  ],
  options: {
    keys: KEYS_OPTION,
    overlap: durationOption(
      { field: 'overlap', minMs: 0, maxMs: 3_650 * DAY_MS },
      'of rotate: how long the old key still verifies (default: 720h)',
    ),
  },
  notes: [
    'The file is readable by its owner only, and holds the part that signs. export prints the public part, which is all that somebody needs who verifies; a file with nothing else may be read by anybody.',
    'A rotation is signed by the old key and by the new one. import takes in keys to verify with: none of them ever signs here, and none lasts longer than is known.',
  ],
  examples: [
    'tenure keys generate',
    'tenure keys rotate --overlap 24h',
    'tenure keys export > registrar.keys.json',
  ],
  run,
})

async function run(call: Call<KeysTable>): Promise<number> {
  const [word, file] = call.positionals
  const action = ACTIONS.find((candidate) => candidate === word)
  if (action === undefined) throw invalid('ACTION', `must be one of ${ACTIONS.join(', ')}`, word)
  if ((action === 'import') !== (file !== undefined)) {
    const expectation = action === 'import' ? 'FILE' : 'nothing'
    throw invalid(`keys ${action}`, `must be followed by ${expectation}`, file)
  }
  const keyFile = keyFileOf(call.options.keys, call.cwd)
  const isLook = action === 'ls' || action === 'export'
  const ring = isLook ? readKeyFile(keyFile) : await changeKeys(call, keyFile, action)
  show(call, action, { ring, keyFile })
  return 0
}

/** Reads, changes and replaces the file while nobody else does: otherwise one of two new keys would be lost. */
async function changeKeys(
  call: Call<KeysTable>,
  keyFile: string,
  action: Change,
): Promise<KeyRing> {
  const file = linkedFile(keyFile)
  makeDirectoryFor(file)
  const { dir: directory, base } = path.parse(file)
  const act = `change ${base}`
  const endTurn = await waitForTurn({ directory, name: `.${base}.turn`, act })
  try {
    const changed = changedRing(call, readKeyFile(file), action)
    writeKeyFile(file, changed)
    return changed
  } finally {
    endTurn()
  }
}

function changedRing(
  { options, positionals, cwd }: Call<KeysTable>,
  ring: KeyRing,
  action: Change,
): KeyRing {
  const nowMs = Date.now()
  switch (action) {
    case 'generate':
      return withFirstKey(ring, generateSigningKey(), nowMs)
    case 'rotate': {
      const overlapMs = options.overlap ?? OVERLAP_MS_DEFAULT
      return rotateKeys(ring, { next: generateSigningKey(), nowMs, overlapMs })
    }
    case 'import':
      return importKeys(ring, parseKeyRing(readText(path.resolve(cwd, positionals[1] ?? ''))))
  }
}

interface Shown {
  readonly ring: KeyRing
  readonly keyFile: string
}

function show({ printer }: Call<KeysTable>, action: Action, { ring, keyFile }: Shown): void {
  const shown = ring.keys.map(shownKey)
  const active = ring.keys.find(isSigning)
  if (action === 'export') {
    const text = formatKeyRing(ring, { secrets: false })
    return printer.answer(JSON.parse(text), () => text.trimEnd())
  }
  printer.answer({ file: keyFile, keys: shown, rotations: ring.rotations.length }, () => {
    if (action === 'generate' || action === 'rotate') {
      return `${active?.keyId ?? ''} signs from now on (${keyFile})`
    }
    if (shown.length === 0) return `no keys in ${keyFile}`
    const columns = ['KEY', 'STATE', 'SIGNS', 'CREATED', 'RETIRES'].map((title) => ({ title }))
    const rows = shown.map((key) => [
      { text: key.keyId },
      { text: key.state },
      { text: key.signs ? 'yes' : 'no' },
      { text: timeText(key.createdAtMs) },
      { text: timeText(key.retiresAtMs) },
    ])
    return formatTable(columns, rows, printer.paint)
  })
}

function shownKey(key: KeptKey) {
  const { keyId, state, createdAtMs, retiresAtMs } = key
  const isOver = retiresAtMs !== null && Date.now() >= retiresAtMs
  return {
    keyId,
    state: isOver ? 'retired' : state,
    createdAtMs,
    retiresAtMs,
    signs: isSigning(key),
  }
}

function timeText(ms: number | null): string {
  return ms === null ? '' : new Date(ms).toISOString()
}
