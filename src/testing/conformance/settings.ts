/** Configuration: rows of text that every decision from the next one on obeys. */
import assert from 'node:assert/strict'
import { parseResource } from '../../core/resource.ts'
import type { SettingRow } from '../../core/settings.ts'
import type { Behaviour } from './harness.ts'
import { OTHER, WORK } from './stage.ts'

export const settingBehaviours: readonly Behaviour[] = [
  {
    name: 'without settings a decision uses the defaults',
    async run(stage) {
      const { settings } = await stage.look({ resource: WORK })
      assert.equal(settings.default_ttl_seconds, 3600)
      assert.equal(settings.malformed, null)
    },
  },
  {
    name: 'a value is in force at the next decision',
    async run(stage) {
      await stage.configure('default_ttl_seconds', '7')
      const lease = await stage.grant({ ttlMs: null })
      assert.equal(lease.ttlMs, 7_000)
    },
  },
  {
    name: 'a value set again replaces the first',
    async run(stage) {
      await stage.configure('default_ttl_seconds', '7')
      await stage.configure('default_ttl_seconds', '8')
      const { settings } = await stage.look({ resource: WORK })
      assert.equal(settings.default_ttl_seconds, 8)
      const rows = (await stage.store.settings()).filter(isTtl)
      assert.deepEqual(rows, [ttl('8')])
    },
  },
  {
    name: 'a resource beats its kind, and its kind beats the rest',
    async run(stage) {
      for (const row of [ttl('30', 'resource', 'work:W-1'), ttl('10'), ttl('20', 'kind', 'work')]) {
        await stage.store.configure(row)
      }
      const targets = [WORK, OTHER, parseResource('file:/a')]
      const seconds = await Promise.all(
        targets.map(async (resource) => {
          return (await stage.look({ resource })).settings.default_ttl_seconds
        }),
      )
      assert.deepEqual(seconds, [30, 20, 10])
      assert.equal((await stage.store.settings()).filter(isTtl).length, 3)
    },
  },
  {
    name: 'an override that is removed is gone, and only that one',
    async run(stage) {
      await stage.store.configure(ttl('10'))
      await stage.store.configure(ttl('20', 'kind', 'work'))
      await stage.store.configure({ ...ttl(''), value: null, scope: 'kind', resourceId: 'work' })
      const { settings } = await stage.look({ resource: WORK })
      assert.deepEqual([settings.default_ttl_seconds, settings.malformed], [10, null])
      assert.deepEqual((await stage.store.settings()).filter(isTtl), [ttl('10')])
    },
  },
  {
    name: 'a global value that is removed falls back to its default',
    async run(stage) {
      await stage.configure('default_ttl_seconds', '7')
      await stage.configure('default_ttl_seconds', null)
      const { settings } = await stage.look({ resource: WORK })
      assert.deepEqual([settings.default_ttl_seconds, settings.malformed], [3600, null])
    },
  },
  {
    name: 'nonsense is kept as it is and told to every decision that it concerns',
    async run(stage) {
      await stage.store.configure(ttl('soon', 'kind', 'work'))
      assert.equal((await stage.run(stage.acquire())).kind, 'malformed_setting')
      assert.equal(
        (await stage.run(stage.acquire({ resource: parseResource('file:/a') }))).kind,
        'granted',
      )
    },
  },
  {
    name: 'what another process configures is in force here at the next call',
    needs: ['openAnother'],
    async run(stage) {
      const another = await stage.another()
      await stage.look({ resource: WORK })
      await another.configure(ttl('9'))
      assert.equal((await stage.look({ resource: WORK })).settings.default_ttl_seconds, 9)
      assert.deepEqual((await stage.store.settings()).filter(isTtl), [ttl('9')])
    },
  },
]

function ttl(
  value: string,
  scope: SettingRow['scope'] = 'global',
  resourceId: string | null = null,
): SettingRow {
  return { key: 'default_ttl_seconds', value, scope, resourceId }
}

function isTtl(row: SettingRow): boolean {
  return row.key === 'default_ttl_seconds'
}
