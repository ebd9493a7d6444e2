// What a dashboard's JSON may hold, made strict: the schema's types leave options and field configuration of a
// panel open, and know enums where JSON has their values.
import type { AnnotationQuery, Dashboard, FieldConfig, Panel, RowPanel, VariableModel } from '@grafana/schema';

/** The JSON form of a type: enums by value. */
export type Json<T> = unknown extends T
  ? T
  : T extends string
    ? `${T}`
    : T extends number
      ? `${T}` extends `${infer N extends number}`
        ? N
        : T
      : T extends boolean | null | undefined
        ? T
        : T extends Array<infer U>
          ? Json<U>[]
          : T extends object
            ? { [K in keyof T]: Json<T[K]> }
            : T;

/** No key at all, where `{}` would accept any. */
export type Nothing = { [key: string]: never };

type Thresholds = { mode: 'absolute' | 'percentage'; steps: { value: number | null; color: string }[] };
type Standard = Omit<Json<FieldConfig>, 'custom' | 'thresholds'> & { thresholds?: Thresholds };

/** A property of an override: a standard one, or one of the panel's own field configuration, each with its value. */
type Property<Custom> =
  | { [K in keyof Standard & string]-?: { id: K; value: NonNullable<Standard[K]> } }[keyof Standard & string]
  | { [K in keyof Custom & string]-?: { id: `custom.${K}`; value: NonNullable<Json<Custom[K]>> } }[keyof Custom & string];

type Fields<Custom> = {
  defaults: Standard & { custom?: Custom extends Nothing ? Nothing : Partial<Json<Custom>> };
  overrides: { matcher: { id: string; options?: unknown }; properties: Property<Custom>[] }[];
};

type DataSource = { type: 'prometheus'; uid: string };

/** A Prometheus query. Written out, since only the oldest package publishes the type. */
type Query = {
  refId: string;
  datasource: DataSource;
  expr: string;
  legendFormat?: string;
  editorMode?: 'code' | 'builder';
  format?: 'time_series' | 'table' | 'heatmap';
  instant?: boolean;
  range?: boolean;
  exemplar?: boolean;
  hide?: boolean;
  interval?: string;
  intervalFactor?: number;
};

export type PanelOf<Type extends string, Options, Custom> = Omit<
  Json<Panel>,
  'type' | 'options' | 'fieldConfig' | 'targets' | 'datasource'
> & {
  type: Type;
  datasource?: DataSource;
  options?: Partial<Json<Options>>;
  fieldConfig?: Fields<Custom>;
  targets?: Query[];
};

export type Row = Omit<Json<RowPanel>, 'panels'> & { panels: never[] };

/** What the Prometheus data source adds to an annotation, and how its answers become events. */
type Annotation = Json<AnnotationQuery> & {
  expr?: string;
  step?: string;
  titleFormat?: string;
  textFormat?: string;
  tagKeys?: string;
  useValueForTime?: boolean | 'on' | '';
};

/** `definition` is what Grafana itself shows in its list of variables; the schema does not have it. */
type Variable = Omit<Json<VariableModel>, 'current'> & {
  current?: Json<VariableModel>['current'] | Nothing;
  definition?: string;
};

export type Frame = Omit<Json<Dashboard>, 'panels' | 'annotations' | 'templating'> & {
  annotations?: { list: Annotation[] };
  templating?: { list: Variable[] };
};
