/** Every live lease and waiter: found as one types, in any order, however many there are. */
import type { JSX } from 'preact'
import { useEffect, useMemo, useRef } from 'preact/hooks'
import { useSignal } from '@preact/signals'
import { useFeed } from '../state/live-feed.ts'
import type { MarkName } from '../state/holds.ts'
import { Mark, markOf } from '../parts/marks.tsx'
import { HolderLink, ResourceLink } from '../parts/names.tsx'
import { Since, TimeLeft } from '../parts/time-left.tsx'
import { VirtualRows } from '../parts/virtual-rows.tsx'
import { countText, visibleName } from '../parts/words.ts'
import {
  flatRow,
  folderRows,
  LeaseRows,
  SHOWN,
  SORT_KEYS,
  type FolderRow,
  type LeaseRow,
  type Row,
  type LeaseFilter,
  type LeaseOrder,
  type Shown,
  type SortKey,
} from '../state/lease-rows.ts'
import type { LeaseCounts } from '../state/live-leases.ts'
import { changeParams, linkToResource, route } from '../state/route.ts'
import { HolderActions } from './acting.tsx'

export function NowView(): JSX.Element {
  const feed = useFeed()
  const { params } = route.value
  const text = params.toString()
  const filter = useMemo(() => filterOf(params), [text])
  const order = useMemo(() => orderOf(params), [text])
  const { rows, counts } = useLeaseRows(filter, order)
  const closed = useSignal<ReadonlySet<string>>(new Set())
  const isTree = order.key === 'resource' && !order.isDescending && params.get('flat') === null
  const items = useMemo(
    () => (isTree ? folderRows(rows, closed.value) : rows.map(flatRow)),
    [rows, isTree, closed.value],
  )
  const toggle = ({ path }: FolderRow): void => {
    const next = new Set(closed.value)
    if (!next.delete(path)) next.add(path)
    closed.value = next
  }
  return (
    <main class="view now">
      <Toolbar {...{ filter, isTree, counts }} shownCount={rows.length} />
      {filter.holder === '' ? null : <HolderStrip holder={filter.holder} />}
      <VirtualRows<Row>
        label="Live leases and waiting requests"
        items={items}
        columns={COLUMNS.length}
        head={<Head order={order} />}
        classOf={(row) => (row.kind === 'folder' ? 'folder' : row.lease.state)}
        render={(row) =>
          row.kind === 'folder' ? (
            <FolderCells row={row} onToggle={() => toggle(row)} />
          ) : (
            <LeaseCells row={row} />
          )
        }
        onOpen={(row) => {
          if (row.kind === 'folder') toggle(row)
          else location.hash = linkToResource(row.lease.resource)
        }}
        empty={
          feed.isComplete.value ? (
            <Nothing isFiltered={counts.held + counts.waiting > 0} />
          ) : (
            'Reading…'
          )
        }
      />
    </main>
  )
}

interface ShownLeases {
  readonly rows: ReturnType<LeaseRows['update']>
  readonly counts: LeaseCounts
}

/** The rows and the counts of one moment, so that they never contradict each other. */
function useLeaseRows(filter: LeaseFilter, order: LeaseOrder): ShownLeases {
  const feed = useFeed()
  const rows = useRef<LeaseRows | null>(null)
  useEffect(() => () => rows.current?.end(), [])
  rows.current ??= new LeaseRows(feed.leases)
  const version = feed.version.value
  return useMemo(() => {
    const current = rows.current ?? new LeaseRows(feed.leases)
    const { counts } = feed.leases
    return { rows: current.update(filter, order, feed.clock.nowMs()), counts }
  }, [version, filter, order])
}

function filterOf(params: URLSearchParams): LeaseFilter {
  return {
    text: params.get('q') ?? '',
    kind: params.get('kind') ?? '',
    holder: params.get('holder') ?? '',
    shown: SHOWN.find((name) => name === params.get('state')) ?? 'all',
  }
}

function orderOf(params: URLSearchParams): LeaseOrder {
  const key = SORT_KEYS.find((name) => name === params.get('sort')) ?? 'resource'
  return { key, isDescending: params.get('down') !== null }
}

function Nothing({ isFiltered }: { isFiltered: boolean }): JSX.Element {
  return isFiltered ? (
    <p>No lease matches. Press Esc in the filter to see all.</p>
  ) : (
    <p>
      Nothing is held. <code>tenure run work:anything -- sleep 60</code> shows up here.
    </p>
  )
}

const SHOWN_WORDS: Readonly<Record<Shown, string>> = {
  all: 'All',
  held: 'Held',
  waiting: 'Waiting',
  expiring: 'Expiring',
  revoking: 'Revoking',
}

const SHOWN_MARKS: Readonly<Partial<Record<Shown, MarkName>>> = {
  held: 'held',
  waiting: 'waiting',
  expiring: 'expiring',
  revoking: 'revoking',
}

interface ToolbarProps {
  readonly filter: LeaseFilter
  readonly isTree: boolean
  readonly shownCount: number
  readonly counts: LeaseCounts
}

function Toolbar({ filter, isTree, shownCount, counts }: ToolbarProps): JSX.Element {
  const feed = useFeed()
  const { held, waiting } = counts
  const isAll = shownCount === held + waiting
  return (
    <div class="toolbar">
      <input
        id="filter"
        class="filter"
        type="search"
        placeholder="Filter by resource, holder or reason   /"
        aria-label="Filter by resource, holder or reason"
        value={filter.text}
        onInput={(event) => changeParams({ q: event.currentTarget.value }, 'replace')}
        onKeyDown={(event) => {
          if (event.key === 'Escape') changeParams({ q: '', kind: '', holder: '', state: '' })
        }}
      />
      <select
        aria-label="Kind of resource"
        value={filter.kind}
        onChange={(event) => changeParams({ kind: event.currentTarget.value })}
      >
        <option value="">every kind</option>
        {feed.leases.kinds().map((kind) => (
          <option key={kind} value={kind}>
            {kind}
          </option>
        ))}
      </select>
      <div class="segments" role="group" aria-label="State">
        {SHOWN.map((name) => {
          const mark = SHOWN_MARKS[name]
          return (
            <button
              key={name}
              type="button"
              aria-pressed={filter.shown === name}
              onClick={() => changeParams({ state: name === 'all' ? '' : name })}
            >
              {mark === undefined ? null : <Mark name={mark} isSilent />}
              {SHOWN_WORDS[name]}
            </button>
          )
        })}
      </div>
      <label class="switch">
        <input
          type="checkbox"
          checked={isTree}
          onChange={(event) => {
            const on = event.currentTarget.checked
            changeParams(on ? { flat: '', sort: '', down: '' } : { flat: '1' })
          }}
        />
        Folders
      </label>
      <p class="counts" aria-live="polite">
        {isAll ? '' : `${countText(shownCount)} of `}
        <b>{countText(held)}</b> held, <b>{countText(waiting)}</b> waiting
        {feed.isComplete.value ? '' : '…'}
      </p>
    </div>
  )
}

function HolderStrip({ holder }: { holder: string }): JSX.Element {
  return (
    <div class="strip">
      <span>
        Of <bdi class="strong">{visibleName(holder)}</bdi> alone
      </span>
      <button type="button" class="quiet" onClick={() => changeParams({ holder: '' })}>
        show all
      </button>
      <HolderActions holder={holder} />
    </div>
  )
}

interface Column {
  readonly name: string
  readonly title: string
  readonly sort?: SortKey
}

const COLUMNS: readonly Column[] = [
  { name: 'state', title: 'State' },
  { name: 'resource', title: 'Resource', sort: 'resource' },
  { name: 'holder', title: 'Holder', sort: 'holder' },
  { name: 'remaining', title: 'Time left', sort: 'left' },
  { name: 'since', title: 'Since', sort: 'since' },
  { name: 'renewals', title: 'Renewed', sort: 'renewals' },
  { name: 'queue', title: 'Queue', sort: 'queue' },
  { name: 'reason', title: 'Reason' },
  { name: 'fence', title: 'Fence', sort: 'fence' },
]

function Head({ order }: { order: LeaseOrder }): JSX.Element {
  return (
    <div class="row head" role="row" aria-rowindex={1}>
      {COLUMNS.map(({ name, title, sort }) => {
        const isSorted = sort === order.key
        const direction = order.isDescending ? 'descending' : 'ascending'
        const again = isSorted && !order.isDescending ? '1' : ''
        return (
          <span
            key={name}
            class={`cell ${name}`}
            role="columnheader"
            {...(sort === undefined ? {} : { 'aria-sort': isSorted ? direction : 'none' })}
          >
            {sort === undefined ? (
              title
            ) : (
              <button type="button" onClick={() => changeParams({ sort, down: again })}>
                {title}
                <span class="arrow" aria-hidden="true">
                  {isSorted ? (order.isDescending ? '↓' : '↑') : ''}
                </span>
              </button>
            )}
          </span>
        )
      })}
    </div>
  )
}

function indent(depth: number): { readonly '--depth': number } {
  return { '--depth': Math.min(depth, 6) }
}

function FolderCells({ row, onToggle }: { row: FolderRow; onToggle: () => void }): JSX.Element {
  const { label, depth, count, isClosed } = row
  return (
    <span class="cell folder" role="gridcell" aria-colspan={COLUMNS.length} style={indent(depth)}>
      <button type="button" tabIndex={-1} aria-expanded={!isClosed} onClick={onToggle}>
        <svg class={isClosed ? 'chevron closed' : 'chevron'} viewBox="0 0 12 12" aria-hidden="true">
          <path d="M3 4.5 6 7.5 9 4.5" />
        </svg>
        <bdi>{visibleName(label)}</bdi>
        <span class="dim">{countText(count)}</span>
      </button>
    </span>
  )
}

function LeaseCells({ row: { lease, label, depth } }: { row: LeaseRow }): JSX.Element {
  const feed = useFeed()
  const { resource, holder, state, mode, extent, slots, renewals, reason, fence } = lease
  const queue = state === 'active' ? feed.leases.queueOf(resource) : 0
  const how = slots === null ? (mode === 'shared' ? 'shared' : '') : `${slots} slots`
  return (
    <>
      <span class="cell state" role="gridcell">
        <StateMark lease={lease} />
      </span>
      <span class="cell resource" role="gridcell" style={indent(depth)}>
        <ResourceLink name={resource} label={label} isInRow />
        {extent === 'subtree' ? <span class="tag">and below</span> : null}
        {how === '' ? null : <span class="tag">{how}</span>}
      </span>
      <span class="cell holder" role="gridcell">
        <HolderLink name={holder} isInRow />
      </span>
      <span class="cell remaining" role="gridcell">
        <TimeLeft lease={lease} />
      </span>
      <span class="cell since" role="gridcell">
        <Since lease={lease} />
      </span>
      <span class="cell renewals" role="gridcell">
        {state === 'active' ? countText(renewals) : ''}
      </span>
      <span class={queue > 0 ? 'cell queue some' : 'cell queue'} role="gridcell">
        {queue > 0 ? countText(queue) : ''}
      </span>
      <span class="cell reason" role="gridcell">
        {reason === null ? null : <bdi title={visibleName(reason)}>{visibleName(reason)}</bdi>}
      </span>
      <span class="cell fence" role="gridcell">
        {fence ?? ''}
      </span>
    </>
  )
}

/** By itself, so that a row is not laid out anew four times a second. */
function StateMark({ lease }: { lease: LeaseRow['lease'] }): JSX.Element {
  return <Mark name={markOf(lease, useFeed().nowMs.value)} />
}
