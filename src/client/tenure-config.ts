/** The store's configuration as applications see it: keys by name, values by their own type. */
import { invalid, LeaseError } from '../core/errors.ts'
import { kindOf, parseResource, type Resource } from '../core/resource.ts'
import {
  parseSettingKey,
  parseSettingValue,
  resolveSettings,
  type SettingKey,
  type SettingRow,
  type SettingValue,
  type Settings,
} from '../core/settings.ts'
import type { Runtime } from '../runtime/runtime.ts'
import { readOptions } from '../protocol/library.ts'
import type { LeaseApi, SettingChange } from '../service/lease-api.ts'
import type { SettingOptions, TenureConfig } from './contract.ts'
import { readResource } from './read-options.ts'

/** Whose value is meant, and a resource for which it holds. */
type SettingTarget = Pick<SettingChange, 'scope' | 'resourceId'>

interface Subject {
  readonly target: SettingTarget
  readonly resource: Resource | null
}

export class ClientConfig implements TenureConfig {
  readonly #api: LeaseApi
  readonly #runtime: Runtime
  readonly #requireOpen: () => void

  /** `requireOpen` throws `CLOSED` when the client was closed. */
  constructor(api: LeaseApi, runtime: Runtime, requireOpen: () => void) {
    this.#api = api
    this.#runtime = runtime
    this.#requireOpen = requireOpen
  }

  async get(key: SettingKey, options?: SettingOptions): Promise<SettingValue> {
    this.#requireOpen()
    const known = parseSettingKey(key)
    const { target, resource } = this.#subject(options)
    const rows = await this.#api.settingRows()
    const relevant = rows.filter((row) => row.key === known && isWithin(row, target))
    const settings = resolveSettings(relevant, resource)
    if (settings.malformed === null) return settings[known]
    const details = { field: known }
    throw new LeaseError('INVALID_INPUT', `configuration: ${settings.malformed}`, { details })
  }

  async set(key: SettingKey, value: SettingValue, options?: SettingOptions): Promise<void> {
    this.#requireOpen()
    const known = parseSettingKey(key)
    const text = String(parseSettingValue(known, value))
    await this.#api.configure({ key: known, value: text, ...this.#subject(options).target })
  }

  async unset(key: SettingKey, options?: SettingOptions): Promise<void> {
    this.#requireOpen()
    const target = this.#subject(options).target
    await this.#api.configure({ key: parseSettingKey(key), value: null, ...target })
  }

  async all(resource?: string): Promise<Settings> {
    this.#requireOpen()
    if (resource === undefined) return this.#api.settings({})
    return this.#api.settings({ resource: readResource(this.#runtime, resource) })
  }

  async overrides(): Promise<readonly SettingRow[]> {
    this.#requireOpen()
    return this.#api.settingRows()
  }

  #subject(options: SettingOptions | undefined): Subject {
    const subject: unknown = readOptions('SettingOptions', options).for
    if (subject === undefined) {
      return { target: { scope: 'global', resourceId: null }, resource: null }
    }
    if (typeof subject !== 'string') throw invalid('for', 'must be a kind or a resource', subject)
    if (!subject.includes(':')) return kindSubject(subject)
    const resource = readResource(this.#runtime, subject)
    return { target: { scope: 'resource', resourceId: resource }, resource }
  }
}

/** Any resource of the kind will do: overrides for single resources are left out before they are resolved. */
function kindSubject(kind: string): Subject {
  const resource = parseResource(`${kind}:/`)
  return { target: { scope: 'kind', resourceId: kindOf(resource) }, resource }
}

function isWithin(row: SettingRow, target: SettingTarget): boolean {
  return row.scope !== 'resource' || target.scope === 'resource'
}
