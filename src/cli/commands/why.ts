/** `tenure why`: who stands in the way of a resource, since when, until when, in whose words, and who waits. */
import type { Blocker } from '../../core/conflict.ts'
import { cycleText, type LeaseInfo } from '../../core/lease.ts'
import { leadingOutWords, leadsOutOf } from '../../files/linked-path.ts'
import type { Inspection } from '../../service/lease-api.ts'
import { type CliCommand, defineCommand } from '../command.ts'
import { delegationFacts } from '../delegation-text.ts'
import { formatSpan } from '../duration.ts'
import {
  adoptionWords,
  expiryWords,
  holderWords,
  noteWords,
  revokingWords,
  sharingWords,
} from '../lease-text.ts'
import { clockTime, relativeTime, visible } from '../output.ts'
import { readLinkedPath } from '../resource-argument.ts'
import { withApi } from '../store-access.ts'

export const why: CliCommand = defineCommand({
  positionals: [
    {
      name: 'RESOURCE',
      help: 'kind:name, or a path, which means the file; with a / at its end, what is below it too',
    },
  ],
  options: {},
  notes: [
    'A path that leads through a symbolic link is the file that it leads to. If it is spelt inside what another holds and leads out of it, that lease does not cover the file, and why says so.',
    'The queue is in the order in which it will be served. In a cycle each waits for the next, and none could go on; it is broken by refusing the request that came last.',
  ],
  examples: ['tenure why src/app.ts', 'tenure why work:W-17 --json'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const path = readLinkedPath(positionals[0] ?? '', cwd)
    const answer = await withApi(identity, async (api) => {
      const inspection = await api.inspect({ resource: path.resource, extent: path.extent })
      const outOf = await leadsOutOf(api, path)
      return outOf.length === 0 ? inspection : { ...inspection, leadsOutOf: outOf }
    })
    const outOf = 'leadsOutOf' in answer ? answer.leadsOutOf : []
    printer.answer(answer, () => {
      const links = outOf.map((lease) => {
        return visible(`${leadingOutWords(path, lease)}; that lease does not cover it`)
      })
      return [describeInspection(answer, Date.now()), ...links].join('\n')
    })
    return 0
  },
})

/** What stands in the way of a resource, and who waits for it, in words. */
export function describeInspection(inspection: Inspection, nowMs: number): string {
  const { resource, leases, queue, blockers, cycles } = inspection
  const others = blockers.filter(({ kind }) => kind === 'offer' || kind === 'lock_delay')
  const isFree = leases.length === 0 && others.length === 0
  if (isFree && queue.length === 0) return visible(`${resource} is free`)
  const lines = [
    ...(isFree ? [`${resource} is free, and waited for`] : []),
    ...leases.flatMap((lease) => holderLines(resource, lease, nowMs)),
    ...others.map((blocker) => otherLine(resource, blocker)),
    ...queueLines(queue, nowMs),
    ...cycles.map((cycle) => factLine('cycle', cycleText(cycle))),
  ]
  return lines.map(visible).join('\n')
}

function holderLines(resource: string, lease: LeaseInfo, nowMs: number): readonly string[] {
  const sinceMs = lease.grantedAtMs ?? lease.createdAtMs
  const through = lease.resource === resource ? '' : ` through ${lease.resource}`
  const held = lease.mode === 'shared' ? 'shared' : 'held'
  const asked = revokingWords(lease)
  const adoption = adoptionWords(lease)
  return [
    `${resource} is ${held} by ${holderWords(lease)}${through}`,
    factLine('since', `${relativeTime(sinceMs, nowMs)} (${clockTime(sinceMs)})`),
    factLine('until', `${expiryWords(lease)}, ${asked === null ? 'unless renewed' : 'for good'}`),
    factLine('reason', lease.reason ?? 'none given'),
    ...(lease.metadata === null ? [] : [factLine('metadata', JSON.stringify(lease.metadata))]),
    factLine('mode', sharingWords(lease)),
    ...delegationFacts(lease).map(([name, words]) => factLine(name, words)),
    ...(asked === null ? [] : [factLine('asked', asked)]),
    ...(adoption === null ? [] : [factLine('adopted', adoption)]),
    ...(lease.upgrading ? [factLine('upgrade', 'waits for the other sharers to leave')] : []),
    ...(lease.breakable ? [factLine('yields', 'when somebody who waits asks for it')] : []),
    factLine('fence', String(lease.fence ?? '-')),
    factLine('lease', lease.id),
  ]
}

function factLine(label: string, text: string): string {
  return `  ${label.padEnd(8)}  ${text}`
}

function otherLine(resource: string, blocker: Blocker): string {
  const left = formatSpan(blocker.remainingMs)
  if (blocker.kind === 'offer') {
    return `${resource} is offered to ${blocker.holder}, who has ${left} to claim it`
  }
  return `${resource} is kept free for another ${left} after ${blocker.holder}'s lease`
}

function queueLines(queue: readonly LeaseInfo[], nowMs: number): readonly string[] {
  if (queue.length === 0) return [factLine('queue', 'nobody waits')]
  return queue.map((ticket, index) => {
    return factLine(index === 0 ? 'queue' : '', `${index + 1}. ${waiterWords(ticket, nowMs)}`)
  })
}

function waiterWords(ticket: LeaseInfo, nowMs: number): string {
  const { priority, group } = ticket
  const note = noteWords(ticket)
  const sharing = sharingWords(ticket)
  return [
    `${holderWords(ticket)}, waiting for ${formatSpan(nowMs - ticket.createdAtMs)}`,
    sharing === 'exclusive' ? '' : `, ${sharing}`,
    priority === null || priority === 0 ? '' : `, priority ${priority}`,
    group === null ? '' : `, one of several at once (group ${group})`,
    note === null ? '' : `: ${note}`,
  ].join('')
}
