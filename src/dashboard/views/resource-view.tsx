/** One resource: who holds it and why, who waits and for how long, what happened to it, and what was derived from it. */
import type { ComponentChild, JSX } from 'preact'
import { useMemo, useRef, useEffect } from 'preact/hooks'
import { eventWord } from '../../core/event.ts'
import { holderMetadata, type LeaseInfo } from '../../core/lease.ts'
import { useFeed } from '../state/live-feed.ts'
import { CyclePicture } from '../parts/cycle-picture.tsx'
import { Mark, markOf } from '../parts/marks.tsx'
import { SPAN_MS, clockText, countText, momentText, spanText, visibleName } from '../parts/words.ts'
import { HolderLink, ResourceLink } from '../parts/names.tsx'
import { Since, TimeLeft } from '../parts/time-left.tsx'
import { TimelineChart } from '../parts/timeline-chart.tsx'
import { readHistory, type History } from '../state/history.ts'
import { useAsked, type Asked } from '../state/questions.ts'
import { holdsOf, lanesOf, markOfEvent, type Hold } from '../state/holds.ts'
import { route } from '../state/route.ts'
import { readInspection, type InspectedResource, type LedgerRow } from '../wire/answers.ts'
import { pathWith } from '../wire/server-calls.ts'
import { LeaseActions } from './acting.tsx'
import { every } from '../page-runtime.ts'
import { useSignal } from '@preact/signals'

const EVENTS_SHOWN = 40

export function ResourceView(): JSX.Element {
  const feed = useFeed()
  const name = route.value.params.get('name') ?? ''
  const version = useVersionOf(name)
  const inspection = useAsked(`inspect ${name}`, version, async (signal) => {
    const path = pathWith('/v1/resources', { resource: name })
    return readInspection(await feed.calls.json(path, { signal }))
  }).value
  const past = useAsked(`history ${name}`, version, async (signal) => {
    return readHistory(feed.calls, { resource: name, pagesMax: 1 }, signal)
  }).value
  return (
    <main class="view page-sheet">
      <header class="subject">
        <p class="dim">Resource</p>
        <h1>
          <bdi>{visibleName(name)}</bdi>
        </h1>
      </header>
      {inspection.kind === 'refused' ? <p class="problem">{inspection.problem}</p> : null}
      {inspection.kind === 'answered' ? (
        <Inspected resource={inspection.answer} past={past} />
      ) : null}
    </main>
  )
}

interface InspectedProps {
  readonly resource: InspectedResource
  readonly past: Asked<History>
}

function Inspected({ resource, past }: InspectedProps): JSX.Element {
  const { leases, queue, cycles } = resource
  const rows = past.kind === 'answered' ? past.answer.rows : []
  // Where a page of renewals hides when a hold began, no more is known than that it was held then.
  const fromMs = rows[0]?.event.atMs ?? 0
  const holds = useMemo(() => holdsOf(rows, [...leases, ...queue], fromMs), [rows, leases, queue])
  return (
    <>
      <Section
        title={leases.length === 0 ? 'Free' : leases.length === 1 ? 'Held by' : 'Held by all of'}
      >
        {leases.length === 0 ? <p class="dim">No holder.</p> : null}
        <div class="cards">
          {leases.map((lease) => (
            <HolderCard key={lease.id} lease={lease} />
          ))}
        </div>
      </Section>
      {cycles.map((cycle, index) => (
        <Section key={index} title="Deadlock" tone="bad">
          <CyclePicture steps={cycle} />
        </Section>
      ))}
      {queue.length === 0 ? null : (
        <Section title={`Queue of ${countText(queue.length)}`}>
          <QueueTable leases={leases} queue={queue} holds={holds} />
        </Section>
      )}
      <Derived leases={leases} />
      {rows.length === 0 ? null : (
        <>
          <Section title="Timeline">
            <ResourceTimeline holds={holds} />
          </Section>
          <Section title="Last events">
            <EventTable rows={rows.slice(-EVENTS_SHOWN).toReversed()} />
          </Section>
        </>
      )}
    </>
  )
}

interface SectionProps {
  readonly title: string
  readonly tone?: 'bad'
  readonly children: ComponentChild
}

export function Section({ title, tone, children }: SectionProps): JSX.Element {
  return (
    <section class={tone === undefined ? 'section' : `section ${tone}`}>
      <h2>{title}</h2>
      {children}
    </section>
  )
}

function HolderCard({ lease }: { lease: LeaseInfo }): JSX.Element {
  const feed = useFeed()
  const { holder, reason, renewals, maxRenewals, fence, mode, extent, slots, epoch, metadata } =
    lease
  const { revoking, upgrading, expiresAtMs, grantedAtMs, maxHoldMs } = lease
  return (
    <article class="card">
      <header>
        <Mark name={markOf(lease, feed.nowMs.value)} />
        <HolderLink name={holder} />
        <LeaseActions lease={lease} />
      </header>
      {reason === null ? null : (
        <p class="words">
          <bdi>{visibleName(reason)}</bdi>
        </p>
      )}
      <TimeLeft lease={lease} />
      <dl class="facts">
        <Fact name="since">
          {grantedAtMs === null ? '' : momentText(grantedAtMs)} (<Since lease={lease} />)
        </Fact>
        <Fact name="until">{expiresAtMs === null ? '' : momentText(expiresAtMs)}</Fact>
        <Fact name="mode">
          {slots === null ? mode : `one of ${slots} slots`}
          {extent === 'subtree' ? ', with everything below' : ''}
          {upgrading ? ', waits to be alone' : ''}
        </Fact>
        <Fact name="renewed">
          {countText(renewals)} ×{maxRenewals < 0 ? '' : ` of ${countText(maxRenewals)}`}
          {maxHoldMs === null ? '' : `, held for ${spanText(maxHoldMs)} at most`}
        </Fact>
        <Fact name="fence">
          <code>{fence}</code>
        </Fact>
        {epoch === null ? null : <Fact name="epoch">{countText(epoch)}</Fact>}
        {revoking === null ? null : (
          <Fact name="asked to finish">
            by <bdi>{visibleName(revoking.by)}</bdi>
            {revoking.reason === null ? null : <bdi>: {visibleName(revoking.reason)}</bdi>}
          </Fact>
        )}
        {Object.entries(holderMetadata(metadata) ?? {}).map(([name, value]) => (
          <Fact key={name} name={visibleName(name)}>
            <bdi>{visibleName(String(value))}</bdi>
          </Fact>
        ))}
      </dl>
    </article>
  )
}

function Fact({ name, children }: { name: string; children: ComponentChild }): JSX.Element {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  )
}

interface QueueProps {
  readonly leases: readonly LeaseInfo[]
  readonly queue: readonly LeaseInfo[]
  readonly holds: readonly Hold[]
}

function QueueTable({ leases, queue, holds }: QueueProps): JSX.Element {
  const nowMs = useFeed().nowMs.value
  const usualMs = usualHoldMs(holds)
  return (
    <>
      <table>
        <thead>
          <tr>
            <th scope="col">Place</th>
            <th scope="col">Waiter</th>
            <th scope="col">Waits for</th>
            <th scope="col">Estimated wait</th>
            <th scope="col">Priority</th>
            <th scope="col">Reason</th>
          </tr>
        </thead>
        <tbody>
          {queue.map((ticket, place) => (
            <tr key={ticket.id}>
              <td>
                <Mark name={markOf(ticket, nowMs)} /> {place + 1}
              </td>
              <td>
                <HolderLink name={ticket.holder} />
              </td>
              <td>
                <Since lease={ticket} />
              </td>
              <td>
                {usualMs === null
                  ? 'unknown yet'
                  : waitText(estimatedWaitMs({ leases, place, usualMs, nowMs }))}
              </td>
              <td>{ticket.priority === 0 ? '' : ticket.priority}</td>
              <td>
                <bdi>{visibleName(ticket.reason ?? '')}</bdi>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {usualMs === null ? null : (
        <p class="dim">
          Estimated from how long it is usually held: {spanText(usualMs)}, the middle of what the
          history tells.
        </p>
      )}
    </>
  )
}

function waitText(waitMs: number): string {
  if (waitMs === 0) return 'overdue: held for longer than usual'
  return waitMs < SPAN_MS.second ? 'less than a second' : `about ${spanText(waitMs)}`
}

/** The leases below those that hold it, with what they may be used for and what is left of their budget. */
function Derived({ leases }: { leases: readonly LeaseInfo[] }): JSX.Element | null {
  const feed = useFeed()
  const version = feed.version.value
  const derived = useMemo(() => derivedFrom(leases, feed.leases.all()), [leases, version])
  if (derived.length === 0) return null
  return (
    <Section title="Derived leases">
      <table>
        <thead>
          <tr>
            <th scope="col">Holder</th>
            <th scope="col">Resource</th>
            <th scope="col">Scope</th>
            <th scope="col">Budget left</th>
            <th scope="col">Time left</th>
          </tr>
        </thead>
        <tbody>
          {derived.map((lease) => (
            <tr key={lease.id}>
              <td style={{ paddingInlineStart: `${((lease.depth ?? 1) - 1) * 16 + 8}px` }}>
                <HolderLink name={lease.holder} />
              </td>
              <td>
                <ResourceLink name={lease.resource} />
              </td>
              <td>{scopeText(lease)}</td>
              <td>{budgetText(lease)}</td>
              <td>
                <TimeLeft lease={lease} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  )
}

function derivedFrom(roots: readonly LeaseInfo[], live: Iterable<LeaseInfo>): readonly LeaseInfo[] {
  const isRooted = roots.some(({ delegation }) => (delegation?.children.length ?? 0) > 0)
  if (!isRooted) return []
  const ids = new Set(roots.map(({ id }) => id))
  return [...live]
    .filter(({ delegation }) => delegation?.line.some((id) => ids.has(id)) === true)
    .toSorted((one, other) => (one.depth ?? 0) - (other.depth ?? 0))
}

function scopeText({ scope }: LeaseInfo): string {
  if (scope === undefined || scope.unlimited) return 'everything'
  const { workIds, tools, namespaces } = scope
  const named = [...workIds, ...tools, ...namespaces].map(visibleName)
  return named.length === 0 ? 'nothing' : named.join(', ')
}

function budgetText({ budget = {}, budgetLeft = {} }: LeaseInfo): string {
  const left = new Map(Object.entries(budgetLeft))
  const parts = Object.entries(budget).map(([name, limit]) => {
    return `${countText(left.get(name) ?? 0)} of ${countText(limit)} ${name}`
  })
  return parts.length === 0 ? 'unlimited' : parts.join(', ')
}

const MARGIN = 0.04

function ResourceTimeline({ holds }: { holds: readonly Hold[] }): JSX.Element {
  const nowMs = Math.floor(useFeed().nowMs.value / 1_000) * 1_000
  const lanes = useMemo(() => lanesOf(holds, 'holder'), [holds])
  const first = Math.min(
    ...holds.flatMap(({ moments }) => moments.map(({ atMs }) => atMs)),
    nowMs - 60_000,
  )
  const toMs = nowMs + (nowMs - first) * MARGIN
  const window = { fromMs: first, toMs }
  return <TimelineChart {...{ lanes, window, nowMs }} by="holder" label="reason" />
}

function EventTable({ rows }: { rows: readonly LedgerRow[] }): JSX.Element {
  return (
    <table class="events">
      <tbody>
        {rows.map(({ position, event }) => (
          <tr key={position}>
            <td class="dim" title={momentText(event.atMs)}>
              {clockText(event.atMs)}
            </td>
            <td>
              <Mark name={markOfEvent(event)} isSilent /> {eventWord(event.type)}
            </td>
            <td>
              <HolderLink name={event.holder} />
            </td>
            <td>
              <bdi>{visibleName(event.reason ?? '')}</bdi>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** The middle one of the spans for which it was held and that have ended; null: none has. */
function usualHoldMs(holds: readonly Hold[]): number | null {
  const spans = holds
    .flatMap(({ grantedAtMs, endedAtMs }) => {
      return grantedAtMs === null || endedAtMs === null ? [] : [endedAtMs - grantedAtMs]
    })
    .toSorted((one, other) => one - other)
  return spans[Math.floor(spans.length / 2)] ?? null
}

interface Queue {
  readonly leases: readonly LeaseInfo[]
  /** Its place; 0 is the head. */
  readonly place: number
  readonly usualMs: number
  readonly nowMs: number
}

/** If each holder keeps it for as long as is usual: what is left of the present holds, then one hold for each waiter in front. */
function estimatedWaitMs({ leases, place, usualMs, nowMs }: Queue): number {
  const lefts = leases.map(({ grantedAtMs }) => {
    return Math.max(0, usualMs - (nowMs - (grantedAtMs ?? nowMs)))
  })
  return Math.max(0, ...lefts) + place * usualMs
}

const LOOK_AGAIN_MS = 5_000

/** A number that grows whenever an event may have changed what is to be said of a resource. */
function useVersionOf(resource: string): number {
  const feed = useFeed()
  const looks = useSignal(0)
  const seen = useRef({ position: '', count: 0 })
  useEffect(() => every(LOOK_AGAIN_MS, () => (looks.value += 1)), [])
  void feed.version.value
  const { rows } = feed.log
  const last = rows.at(-1)?.position ?? ''
  if (last !== seen.current.position) {
    const from = rows.findIndex(({ position }) => position === seen.current.position)
    const isTouched = rows.slice(from + 1).some(({ event }) => touches(event.resource, resource))
    seen.current = { position: last, count: seen.current.count + (isTouched ? 1 : 0) }
  }
  return seen.current.count + looks.value
}

/** The same, or one above the other. */
function touches(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`)
}
