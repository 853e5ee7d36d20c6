/** `tenure why`: who stands in the way of a resource, since when, until when, in whose words, and who waits. */
import type { Blocker } from '../../core/conflict.ts'
import type { LeaseInfo } from '../../core/lease.ts'
import type { Inspection } from '../../service/lease-api.ts'
import { defineCommand, type Command } from '../command.ts'
import { formatSpan } from '../duration.ts'
import { expiryWords } from '../lease-text.ts'
import { clockTime, relativeTime, visible } from '../output.ts'
import { readResource } from '../resource-argument.ts'
import { withApi } from '../store-access.ts'

export const why: Command = defineCommand({
  positionals: [{ name: 'RESOURCE', help: 'kind:name, or a path, which means the file' }],
  options: {},
  examples: ['tenure why src/app.ts', 'tenure why work:W-17 --json'],
  run: async ({ identity, positionals, printer, cwd }) => {
    const resource = readResource(positionals[0] ?? '', cwd)
    const inspection = await withApi(identity, async (api) => api.inspect(resource))
    printer.answer(inspection, () => describe(inspection, Date.now()))
    return 0
  },
})

function describe(inspection: Inspection, nowMs: number): string {
  const { resource, leases, queue, blockers } = inspection
  const others = blockers.filter(({ kind }) => kind === 'offer' || kind === 'lock_delay')
  if (leases.length === 0 && queue.length === 0 && others.length === 0) {
    return visible(`${resource} is free`)
  }
  const lines = [
    ...leases.flatMap((lease) => holderLines(resource, lease, nowMs)),
    ...others.map((blocker) => otherLine(resource, blocker)),
    ...queueLines(queue, nowMs),
  ]
  return lines.map(visible).join('\n')
}

function holderLines(resource: string, lease: LeaseInfo, nowMs: number): readonly string[] {
  const sinceMs = lease.grantedAtMs ?? lease.createdAtMs
  const through = lease.resource === resource ? '' : ` through ${lease.resource}`
  return [
    `${resource} is held by ${lease.holder}${through}`,
    `  since     ${relativeTime(sinceMs, nowMs)} (${clockTime(sinceMs)})`,
    `  until     ${expiryWords(lease)}, unless renewed`,
    `  reason    ${lease.reason ?? 'none given'}`,
    `  fence     ${lease.fence ?? '-'}`,
    `  lease     ${lease.id}`,
  ]
}

function otherLine(resource: string, blocker: Blocker): string {
  const left = formatSpan(blocker.remainingMs)
  if (blocker.kind === 'offer') {
    return `${resource} is offered to ${blocker.holder}, who has ${left} to claim it`
  }
  return `${resource} is kept free for another ${left} after ${blocker.holder}'s lease`
}

function queueLines(queue: readonly LeaseInfo[], nowMs: number): readonly string[] {
  if (queue.length === 0) return ['  queue     nobody waits']
  return queue.map((ticket, index) => {
    const label = index === 0 ? 'queue' : ''
    const reason = ticket.reason === null ? '' : `: ${ticket.reason}`
    const waited = formatSpan(nowMs - ticket.createdAtMs)
    return `  ${label.padEnd(8)}  ${index + 1}. ${ticket.holder}, waiting for ${waited}${reason}`
  })
}
