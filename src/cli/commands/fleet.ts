/** `tenure fleet`: who polls what, who should, and how to empty an instance before maintenance. */
import { invalid, LeaseError } from '../../core/errors.ts'
import type { FleetLayout } from '../../fleet/fleet-layout.ts'
import { LEASE_TTL_MS_DEFAULT, type LayoutName } from '../../fleet/fleet-options.ts'
import {
  readOverview,
  type NodeRow,
  type Overview,
  type SessionRow,
} from '../../fleet/fleet-overview.ts'
import { openLayout } from '../../open-fleet.ts'
import { pause } from '../../runtime/pause.ts'
import { systemRuntime } from '../../runtime/system-runtime.ts'
import { durationOption, flag, readWord, textOption, wordOption } from '../arguments.ts'
import { defineCommand, type CliCall, type CliCommand } from '../command.ts'
import { formatTable, plural, relativeTime, visible, type Cell, type Colour } from '../output.ts'
import { given, requireStore, storeOptionsOf, useAndClose } from '../store-access.ts'

const ACTIONS = ['ls', 'nodes', 'owners', 'drain'] as const
type Action = (typeof ACTIONS)[number]

const DAY_MS = 86_400_000
const DRAIN_WAIT_MS_DEFAULT = 60_000
const LOOK_EVERY_MS = 200
const LAYOUTS: readonly LayoutName[] = ['poll', 'lease']

const options = {
  prefix: textOption('TEXT', 'of the keys on Redis (default: poll)'),
  layout: wordOption('layout', LAYOUTS, {
    placeholder: 'LAYOUT',
    help: 'poll or lease (default: poll on Redis, lease elsewhere)',
  }),
  ttl: durationOption(
    { field: 'ttl', minMs: 1, maxMs: DAY_MS },
    'the lease TTL of foreign instances on Redis (default: 30s)',
  ),
  wait: durationOption(
    { field: 'wait', minMs: 0, maxMs: DAY_MS },
    'for drain: how long to wait until the instance is empty (default: 60s)',
  ),
  undo: flag('for drain: let the instance take part again'),
}

type FleetTable = typeof options

export const fleet: CliCommand = defineCommand({
  positionals: [
    { name: 'ACTION', help: 'ls, nodes, owners, or drain NODE' },
    {
      name: 'NODE',
      help: 'for drain: an instance id, or a name that only one has',
      optional: true,
    },
  ],
  options,
  notes: [
    'ls shows each session that somebody owns, with its owner, its preferred owner, its state and its last renewal; nodes shows each instance; owners shows the sessions of each. drain tells an instance to hand everything over and take nothing more, and waits until it is empty; the others serve on.',
    'These commands read every key of the fleet. They are for people, not for loops.',
  ],
  examples: [
    'tenure fleet ls --store redis://localhost',
    'tenure fleet nodes --store redis://localhost --json',
    'tenure fleet drain api-7fd8c9-1736598400000000000-a1b2c3d4 --wait 2m',
  ],
  run,
})

async function run(call: CliCall<FleetTable>): Promise<number> {
  const [word, node] = call.positionals
  const action = readWord('ACTION', ACTIONS, word)
  if (action === 'drain' && node === undefined) throw invalid('NODE', 'must be given', node)
  if (action !== 'drain') refuseForeignOptions(call, action, node)
  return withLayout(call, async (opened) => {
    if (action === 'drain') return drain(call, opened, node ?? '')
    const overview = await look(call, opened)
    call.printer.answer(answerOf(action, overview), () => textOf(action, overview, call))
    return 0
  })
}

function refuseForeignOptions(
  { options }: CliCall<FleetTable>,
  action: Action,
  node: string | undefined,
): void {
  if (node !== undefined) throw invalid(`fleet ${action}`, 'must be followed by nothing', node)
  if (options.wait !== undefined) throw invalid('wait', 'must only be given with drain', action)
  if (options.undo !== undefined) throw invalid('undo', 'must only be given with drain', action)
}

async function withLayout(
  { identity, options }: CliCall<FleetTable>,
  work: (layout: FleetLayout) => Promise<number>,
): Promise<number> {
  requireStore(identity)
  const { prefix, layout: name } = options
  const wanted = { ...given({ prefix, layout: name }), ...storeOptionsOf(identity), ready: false }
  const { layout } = await openLayout(identity.url, wanted)
  return useAndClose(layout, async () => {
    await layout.open(null)
    return work(layout)
  })
}

async function look({ options }: CliCall<FleetTable>, opened: FleetLayout): Promise<Overview> {
  const leaseTtlMs = options.ttl ?? LEASE_TTL_MS_DEFAULT
  return readOverview(opened, { nowMs: Date.now(), leaseTtlMs })
}

/** Asks the instance to be empty, and waits until it is. */
async function drain(
  call: CliCall<FleetTable>,
  opened: FleetLayout,
  wanted: string,
): Promise<number> {
  const { options, printer } = call
  const { instanceId } = find((await look(call, opened)).nodes, wanted)
  const isWanted = options.undo === undefined
  await opened.drain(instanceId, isWanted)
  const waitMs = options.wait ?? DRAIN_WAIT_MS_DEFAULT
  const sessions = isWanted ? await untilEmpty(call, opened, { instanceId, waitMs }) : null
  const effect = isWanted ? `${instanceId} is empty` : `${instanceId} takes part again`
  printer.effect(effect, { instanceId, draining: isWanted, sessions }, () => visible(effect))
  return 0
}

function find(nodes: readonly NodeRow[], wanted: string): NodeRow {
  const found = nodes.filter(({ instanceId, name }) => instanceId === wanted || name === wanted)
  const [node] = found
  if (node !== undefined && found.length === 1) return node
  const expected = found.length === 0 ? 'must be one that fleet nodes lists' : 'must name only one'
  throw invalid('NODE', expected, wanted)
}

async function untilEmpty(
  call: CliCall<FleetTable>,
  opened: FleetLayout,
  { instanceId, waitMs }: { readonly instanceId: string; readonly waitMs: number },
): Promise<number> {
  const beganMs = systemRuntime.monotonicMs()
  for (;;) {
    const { nodes } = await look(call, opened)
    const left = nodes.find((node) => node.instanceId === instanceId)?.sessions ?? 0
    if (left === 0) return left
    if (systemRuntime.monotonicMs() - beganMs >= waitMs) {
      const message = `${instanceId} still owns ${plural(left, 'session')} after ${waitMs} ms`
      throw new LeaseError('WAIT_TIMEOUT', message, { details: { instanceId, sessions: left } })
    }
    await pause(systemRuntime, LOOK_EVERY_MS, { keepAlive: true })
  }
}

interface Owner {
  readonly instanceId: string
  readonly name: string | null
  readonly sessions: readonly string[]
}

function answerOf(action: Exclude<Action, 'drain'>, overview: Overview): unknown {
  if (action === 'ls') return { sessions: overview.sessions }
  if (action === 'nodes') return { nodes: overview.nodes }
  return { owners: ownersOf(overview) }
}

function ownersOf({ nodes, sessions }: Overview): readonly Owner[] {
  const byOwner = new Map<string, string[]>()
  for (const { ownerId, sessionId } of sessions) {
    const own = byOwner.get(ownerId) ?? []
    byOwner.set(ownerId, own)
    own.push(sessionId)
  }
  return nodes.map(({ instanceId, name }) => {
    return { instanceId, name, sessions: byOwner.get(instanceId) ?? [] }
  })
}

function textOf(
  action: Exclude<Action, 'drain'>,
  overview: Overview,
  { printer: { paint } }: CliCall<FleetTable>,
): string {
  if (action === 'nodes') {
    if (overview.nodes.length === 0) return 'no instances'
    const titles = ['INSTANCE', 'NAME', 'STATE', 'KIND', 'WEIGHT', 'SESSIONS']
    return formatTable(titles, overview.nodes.map(nodeCells), paint)
  }
  if (overview.sessions.length === 0) return 'no sessions'
  if (action === 'ls') {
    const titles = ['SESSION', 'OWNER', 'PREFERRED', 'STATE', 'RENEWED']
    return formatTable(titles, overview.sessions.map(sessionCells), paint)
  }
  const rows = ownersOf(overview).flatMap(({ instanceId, sessions }) =>
    sessions.map((sessionId, index) => [
      index === 0 ? instanceId : '',
      index === 0 ? String(sessions.length) : '',
      sessionId,
    ]),
  )
  return formatTable(['OWNER', 'COUNT', 'SESSION'], rows, paint)
}

const COLOURS: Readonly<Record<string, Colour>> = {
  ready: 'green',
  owned: 'green',
  draining: 'yellow',
  not_ready: 'yellow',
  uncertain: 'yellow',
  silent: 'red',
  orphaned: 'red',
}

function state(text: string): Cell {
  const colour = COLOURS[text]
  return colour === undefined ? text : { text, colour }
}

function nodeCells(row: NodeRow): readonly Cell[] {
  return [
    row.instanceId,
    row.name ?? '-',
    state(row.state),
    row.isForeign ? 'foreign' : 'tenure',
    row.weight === null ? '-' : String(row.weight),
    String(row.sessions),
  ]
}

function sessionCells(row: SessionRow): readonly Cell[] {
  const isHome = row.preferredOwnerId === row.ownerId
  return [
    row.sessionId,
    row.ownerId,
    isHome ? 'the same' : (row.preferredOwnerId ?? '-'),
    state(row.state),
    row.lastRenewedAtMs === null ? '-' : relativeTime(row.lastRenewedAtMs, Date.now()),
  ]
}
