import type { PanelProps } from '@grafana/data';

/** What stands in a panel without data, as in Grafana's PanelDataErrorView. */
export const Message = ({ panel, text }: { panel: PanelProps<any>; text?: string }) => (
  <div style={{ display: 'flex', height: panel.height, alignItems: 'center', justifyContent: 'center', textAlign: 'center' }}>
    {text ?? panel.fieldConfig.defaults.noValue ?? 'No data'}
  </div>
);

export const hasValues = ({ data }: PanelProps<any>) => data.series.some(({ length }) => length > 0);
